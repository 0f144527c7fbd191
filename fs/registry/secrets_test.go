package registry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// marker is in every secret of this test.
const marker = "s3cr3tm4rk3r"

// journal collects all that is logged, returned and measured.
type journal struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) err(what string, err error) {
	fmt.Fprintf(j, "%s: %v | %+v | %#v\n", what, err, err, err)
}

func (j *journal) check(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		if strings.Contains(line, marker) || strings.Contains(line, basicAuth(marker, "")[:12]) {
			t.Errorf("secret in %s", line)
		}
	}
}

// TestSE02_NoSecretsInLogs goes through what works and what fails, at trace
// level, with marked secrets of each kind.
func TestSE02_NoSecretsInLogs(t *testing.T) {
	j := &journal{}
	logger := like(log.L.Logger)
	logger.Out, logger.Formatter, logger.Hooks, logger.Level = j, log.L.Logger.Formatter, nil, log.TraceLevel
	helperScript(t, "marked", "echo "+marker+" >&2; echo "+marker+"; exit 3\n")
	metrics := prometheus.NewRegistry()

	use := func(t *testing.T, what string, c *Client, ref string, l layer) {
		t.Helper()
		s := blobs(t, c, ref)
		ctx := log.WithLogger(t.Context(), logger.WithFields(nil))
		for i := range 2 {
			_, err := s.ReadBlock(ctx, l.ref(i*100, 100), nil)
			j.err(what, err)
		}
		r := c.Resolver()
		_, d, err := r.Resolve(ctx, ref+":1")
		j.err(what, err)
		if err == nil {
			fetch(ctx, t, r, ref+":1", d)
		}
		f, err := r.Fetcher(ctx, ref+":1")
		j.err(what, err)
		d = descriptor("application/x", l.bytes)
		if rc, err := f.Fetch(ctx, d); err == nil {
			_, err = rc.Read(make([]byte, 1))
			j.err(what, err)
			_ = rc.Close()
		} else {
			j.err(what, err)
		}
		fetchByDigest(ctx, j, f, d)
	}

	auths := map[string]func() *registrytest.Auth{
		"token": func() *registrytest.Auth {
			return &registrytest.Auth{Users: map[string]string{"u": marker}, Prefix: marker}
		},
		"identity": func() *registrytest.Auth {
			return &registrytest.Auth{Identities: map[string]string{marker: "u"}, Prefix: marker}
		},
		"basic": func() *registrytest.Auth {
			return &registrytest.Auth{Basic: true, Users: map[string]string{"u": marker}}
		},
	}
	creds := map[string]Credential{"token": {Username: "u", Password: marker}, "identity": {IdentityToken: marker}, "basic": {Username: "u", Password: marker}}
	of := registrytest.Of
	faults := map[string]func(*registrytest.Registry){
		"works":       func(*registrytest.Registry) {},
		"denied":      func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Status: 403}) },
		"broken":      func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Status: 500}) },
		"reset":       func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Reset: true}) },
		"truncated":   func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Truncate: 10}) },
		"hanging":     func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Hang: true}) },
		"wrong range": func(r *registrytest.Registry) { r.Every(of(registrytest.Signed), registrytest.Fault{Shift: 1}) },
		"revoked":     func(r *registrytest.Registry) { r.Every(of(registrytest.Blobs), registrytest.Fault{Status: 401}) },
		"token fails": func(r *registrytest.Registry) { r.Every(of(registrytest.Token), registrytest.Fault{Status: 500}) },
		"token gone":  func(r *registrytest.Registry) { r.Every(of(registrytest.Token), registrytest.Fault{Close: true}) },
		"Location": func(r *registrytest.Registry) {
			h := http.Header{"Location": {"http://%zz/" + marker + "?sig=" + marker}}
			r.Every(of(registrytest.Blobs), registrytest.Fault{Status: 307, Header: h})
		},
		"Location 2": func(r *registrytest.Registry) {
			h := http.Header{"Location": {"http://127.0.0.1:1/x?sig=" + marker}}
			r.Every(of(registrytest.Blobs), registrytest.Fault{Status: 307, Header: h})
		},
	}
	for kind, auth := range auths {
		for fault, spoil := range faults {
			o := Options{
				Attempts: 2, Credentials: byHost{host: creds[kind]}.get,
				HostsDirs: []string{hostsToml(t, "reg.test_5000_", "server = \"http://"+host+"\"\n[header]\nX-Token = \""+marker+"\"\n")},
			}
			if kind == "token" && fault == "works" {
				o.Registerer = metrics
			}
			ro := registrytest.Options{Auth: auth(), Redirect: &registrytest.Redirect{Marker: marker, Hops: 2}}
			inBubble(t, ro, o, func(b *bubble) {
				t := b.t
				l := addLayer(t, b.reg, "a/b", 1000)
				if err := b.reg.AddManifest("a/b", "1", "application/vnd.oci.image.manifest.v1+json", []byte("{}")); err != nil {
					t.Fatal(err)
				}
				spoil(b.reg)
				use(t, kind+", "+fault, b.c, host+"/a/b", l)
			})
		}
	}

	for kind, config := range map[string]string{
		"helper": `{"credsStore":"marked"}`,
		"file":   `{"auths":{"` + host + `":{"auth":"` + basicAuth(marker, "")[:16] + `"}}}`,
		"damage": `{"auths":"` + marker + `"}`,
	} {
		dir := t.TempDir()
		dockerConfig(t, dir, "%s", config)
		inBubble(t, registrytest.Options{Auth: &registrytest.Auth{Users: users}}, Options{DockerConfig: dir, Attempts: 2}, func(b *bubble) {
			t := b.t
			use(t, kind, b.c, host+"/a/b", addLayer(t, b.reg, "a/b", 1000))
		})
	}

	families, err := metrics.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	fmt.Fprintln(j, families)
	j.check(t)
	if !strings.Contains(j.buf.String(), "level=debug") {
		t.Error("nothing was logged at debug level: the test sees nothing")
	}
}

func fetchByDigest(ctx context.Context, j *journal, f remotes.Fetcher, d ocispec.Descriptor) {
	rc, _, err := f.(remotes.FetcherByDigest).FetchByDigest(ctx, d.Digest)
	j.err("by digest", err)
	if err == nil {
		_ = rc.Close()
	}
}
