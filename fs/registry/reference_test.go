package registry

import (
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/containerd/errdefs"
	dref "github.com/distribution/reference"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestRA13_References(t *testing.T) {
	for ref, want := range map[string]string{
		"busybox":                               "docker.io library/busybox",
		"busybox:1.36":                          "docker.io library/busybox",
		"busybox@" + someDigest:                 "docker.io library/busybox",
		"library/busybox":                       "docker.io library/busybox",
		"user/app:latest":                       "docker.io user/app",
		"docker.io/user/app":                    "docker.io user/app",
		"index.docker.io/user/app":              "docker.io user/app",
		"reg:5000/a/b":                          "reg:5000 a/b",
		"reg:5000/a/b:1":                        "reg:5000 a/b",
		"reg:5000/a/b@" + someDigest:            "reg:5000 a/b",
		"reg:5000/a/b:latest@" + someDigest:     "reg:5000 a/b",
		"reg/a/b":                               "docker.io reg/a/b", // a single label without a port is no host
		"localhost/x:1":                         "localhost x",
		"localhost:5000/x":                      "localhost:5000 x",
		"127.0.0.1:5000/x":                      "127.0.0.1:5000 x",
		"[::1]:5000/x":                          "[::1]:5000 x",
		"[::1]/x:1":                             "[::1] x",
		"reg.example.com/a--b/c__d":             "reg.example.com a--b/c__d",
		"reg.example.com/a.b_c-d/e:v1.2-rc.3_4": "reg.example.com a.b_c-d/e",
		"REG.example.com/x":                     "REG.example.com x",
		"xn--bcher-kva.example/x":               "xn--bcher-kva.example x",
		"reg.example.com:443/a/b/c/d/e/f/g":     "reg.example.com:443 a/b/c/d/e/f/g",
	} {
		n, err := parse(ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if got := n.host + " " + n.path; got != want {
			t.Errorf("%s is %q, want %q", ref, got, want)
		}
		// What containerd makes of it: the normal form, then its own reference.
		named, err := dref.ParseDockerRef(ref)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := reference.Parse(named.String())
		if err != nil {
			t.Fatal(err)
		}
		if n.host != spec.Hostname() || n.String() != spec.Locator {
			t.Errorf("%s is %q, containerd has %q", ref, n, spec.Locator)
		}
		e := &endpoint{}
		e.Scheme, e.Host, e.Path = "https", n.host, "/v2"
		u := e.url(n.path, "blobs", someDigest)
		back := mustURL(t, u.String())
		if back.Host != n.host || back.Path != "/v2/"+n.path+"/blobs/"+someDigest || back.RawQuery != "" {
			t.Errorf("%s: URL %s does not come back", ref, u)
		}
	}
	for _, ref := range []string{
		"", ":", "a/B", "a//b", "https://reg/a", "reg:port/a", "a@sha256:12", "a:" + strings.Repeat("x", 129),
		"reg.example.com/../x", "reg.example.com/a?b=c", "reg.example.com/a#b", "user:pass@reg.example.com/a", "a\n",
	} {
		if n, err := parse(ref); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v, %v", ref, n, err)
		}
	}
}
