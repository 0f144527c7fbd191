package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// unencrypted counts the requests that came over plain http.
func unencrypted(r *registrytest.Registry) (n int) {
	for _, q := range r.Requests() {
		if !q.TLS {
			n++
		}
	}
	return n
}

func TestRA08_PlainHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net registrytest.Net
		reg := registrytest.New(t, registrytest.Options{
			Listener: net.Listen(host), Name: host, Auth: &registrytest.Auth{Users: users},
		})
		o := Options{Dial: net.DialContext, Credentials: static("u", "p"), Budget: 5 * time.Second}
		o.PlainHTTP = []string{host}
		marked := newClient(t, o)
		layer := []byte("a layer of no great size")
		push := pushImage(t.Context(), t, marked.Resolver(), host+"/a/b:1", layer)
		if _, d, err := marked.Resolver().Resolve(t.Context(), host+"/a/b:1"); err != nil || d.Digest != push.Digest {
			t.Errorf("resolve: %v, %v", d.Digest, err)
		}
		fetch(t.Context(), t, marked.Resolver(), host+"/a/b:1", push)
		l := addLayer(t, reg, "a/b", 1<<16)
		l.read(t.Context(), t, blobs(t, marked, host+"/a/b:1"), 0, 100)
		if n := reg.Handshakes(); n != 0 {
			t.Errorf("%d TLS handshakes at a host marked plain", n)
		}

		reg.Forget()
		o.PlainHTTP = nil
		unmarked := newClient(t, o)
		_, err := blobs(t, unmarked, host+"/a/b:1").ReadBlock(t.Context(), l.ref(0, 100), nil)
		if err == nil || !strings.Contains(err.Error(), host) {
			t.Errorf("not marked: %v", err)
		}
		if _, _, err := unmarked.Resolver().Resolve(t.Context(), host+"/a/b:1"); err == nil {
			t.Error("not marked: resolved")
		}
		if n := len(reg.Requests()); n != 0 {
			t.Errorf("%d http requests to a host that is not marked", n)
		}
	})
}

func TestSE03_NoFallbackToHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net registrytest.Net
		reg := registrytest.New(t, registrytest.Options{
			Listener: net.Listen(host), Name: host, TLS: registrytest.Both,
			Auth: &registrytest.Auth{Basic: true, Users: users},
		})
		l := addLayer(t, reg, "a/b", 1<<16)
		read := func(o Options) error {
			o.Dial, o.Credentials, o.Budget = net.DialContext, static("u", "p"), 5*time.Second
			c := newClient(t, o)
			_, err := blobs(t, c, host+"/a/b").ReadBlock(t.Context(), l.ref(0, 100), nil)
			if _, _, rerr := c.Resolver().Resolve(t.Context(), host+"/a/b:1"); (err == nil) != errdefs.IsNotFound(rerr) {
				t.Errorf("blobs: %v, but resolver: %v", err, rerr)
			}
			return err
		}
		if err := read(Options{}); err == nil {
			t.Error("certificate of unknown authority was accepted")
		}
		if n := unencrypted(reg); n != 0 {
			t.Errorf("%d requests over http after TLS failed", n)
		}
		if err := read(Options{SkipVerify: []string{host}}); err != nil {
			t.Errorf("verification skipped: %v", err)
		}
		if n := unencrypted(reg); n != 0 {
			t.Errorf("%d requests over http where only verification is skipped", n)
		}
		reg.Forget()
		if err := read(Options{PlainHTTP: []string{host}}); err != nil {
			t.Errorf("plain http: %v", err)
		}
		if n := len(reg.Requests()); n == 0 || n != unencrypted(reg) {
			t.Errorf("%d of %d requests over http where that is configured", unencrypted(reg), n)
		}
	})
}

// TestSE03_TokenServerOverHTTP: a registry over TLS cannot make us send the
// password to a token server over http.
func TestSE03_TokenServerOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net registrytest.Net
		tokens := registrytest.New(t, registrytest.Options{Listener: net.Listen("tokens.test:80"), Name: "tokens.test:80", Auth: &registrytest.Auth{Users: users}})
		reg := registrytest.New(t, registrytest.Options{
			Listener: net.Listen(host), Name: host, TLS: registrytest.Secure,
			Auth: &registrytest.Auth{Users: users, Realm: "http://tokens.test:80/token"},
		})
		l := addLayer(t, reg, "a/b", 1<<16)
		c := newClient(t, Options{Dial: net.DialContext, Credentials: static("u", "p"), SkipVerify: []string{host}, Budget: 5 * time.Second})
		if _, err := blobs(t, c, host+"/a/b").ReadBlock(t.Context(), l.ref(0, 100), nil); err == nil {
			t.Error("no error")
		}
		if n := len(tokens.Requests()); n != 0 {
			t.Errorf("%d requests to the token server over http", n)
		}
	})
}

func TestRA09_Mirrors(t *testing.T) {
	for _, trust := range []string{"ca", "skip_verify"} {
		t.Run(trust, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var net registrytest.Net
				open := func(name string, tls registrytest.TLS) *registrytest.Registry {
					return registrytest.New(t, registrytest.Options{Listener: net.Listen(name), Name: name, TLS: tls})
				}
				bad := open("m2.test:80", registrytest.Plain)
				bad.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 500})
				good := open("m3.test:443", registrytest.Secure)
				up := open("up.test:443", registrytest.Secure)
				l := addLayer(t, good, "a/b", 1<<16)
				addLayer(t, up, "a/b", 1<<16)

				ca := filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(ca, good.CA(), 0o600); err != nil {
					t.Fatal(err)
				}
				how := map[string]string{"ca": "ca = \"" + ca + "\"", "skip_verify": "skip_verify = true"}[trust]
				dir := hostsToml(t, "up.test", `
server = "https://up.test"
[host."http://m1.test:80"]
  capabilities = ["pull", "resolve"]
[host."http://m2.test:80"]
  capabilities = ["pull"]
[host."https://m3.test:443/prefix"]
  capabilities = ["pull"]
  override_path = true
  `+how+`
  [host."https://m3.test:443/prefix".header]
    X-Mirror = "yes"
`)
				for range 2 { // the second round is after a restart
					c := newClient(t, Options{Dial: net.DialContext, HostsDirs: []string{dir}})
					s := blobs(t, c, "up.test/a/b:1")
					dials := net.Dials("m1.test:80")
					bad.Forget()
					good.Forget()
					for i := range 29 {
						l.read(t.Context(), t, s, i*100, 100)
						time.Sleep(time.Second)
					}
					if n := net.Dials("m1.test:80") - dials; n != 1 {
						t.Errorf("mirror 1 was dialled %d times in 29 s, want 1", n)
					}
					if n := len(bad.Requests()); n != 1 {
						t.Errorf("mirror 2 was asked %d times in 29 s, want 1", n)
					}
					got := good.Requests()
					if len(got) != 29 {
						t.Errorf("mirror 3 was asked %d times, want 29", len(got))
					}
					for _, q := range got {
						if !strings.HasPrefix(q.Path, "/prefix/a/b/blobs/") || q.Query != "ns=up.test" || q.Header.Get("X-Mirror") != "yes" {
							t.Fatalf("mirror 3 was asked %s?%s with %v", q.Path, q.Query, q.Header)
						}
					}
					time.Sleep(10 * time.Second) // what they did is forgiven after 33 s
					l.read(t.Context(), t, s, 0, 100)
					if n := len(bad.Requests()); n != 2 {
						t.Errorf("mirror 2 was not asked again after 39 s: %d", n)
					}
				}
				if n := len(up.Requests()); n != 0 {
					t.Errorf("upstream was asked %d times", n)
				}
			})
		})
	}
}

func TestMirrorThatLacksTheBlobOrDamagesIt(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *registrytest.Registry){
		"lacks it": func(*testing.T, *registrytest.Registry) {},
		"damages it": func(t *testing.T, r *registrytest.Registry) {
			t.Helper()
			addLayer(t, r, "a/b", 1<<16)
			r.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Flip: 50})
		},
		"denies it": func(_ *testing.T, r *registrytest.Registry) {
			r.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 403})
		},
	} {
		t.Run(name, func(t *testing.T) {
			mirror := registrytest.New(t, registrytest.Options{})
			up := registrytest.New(t, registrytest.Options{})
			spoil(t, mirror)
			l := addLayer(t, up, "a/b", 1<<16)
			dir := hostsToml(t, "up.test", "server = \""+up.URL()+"\"\n[host.\""+mirror.URL()+"\"]\n")
			s := blobs(t, newClient(t, Options{HostsDirs: []string{t.TempDir(), dir}}), "up.test/a/b:1")
			for range 3 {
				l.read(t.Context(), t, s, 0, 100)
			}
			if n := mirror.Count(registrytest.Blobs); n != 1 {
				t.Errorf("mirror was asked %d times, want 1", n)
			}
		})
	}
}

// Bytes that are wrong everywhere are not asked for until the deadline: the
// reader waits, and would learn of nothing but the time.
func TestDamagedOnAllHosts(t *testing.T) {
	mirror := registrytest.New(t, registrytest.Options{})
	up := registrytest.New(t, registrytest.Options{})
	for _, r := range []*registrytest.Registry{mirror, up} {
		r.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Flip: 50})
		addLayer(t, r, "a/b", 1<<16)
	}
	l := addLayer(t, up, "a/b", 1<<16)
	dir := hostsToml(t, "up.test", "server = \""+up.URL()+"\"\n[host.\""+mirror.URL()+"\"]\n")
	s := blobs(t, newClient(t, Options{HostsDirs: []string{dir}}), "up.test/a/b:1")
	if _, err := s.ReadBlock(t.Context(), l.ref(0, 100), nil); !errdefs.IsDataLoss(err) {
		t.Errorf("damaged block: %v", err)
	}
	if m, u := mirror.Count(registrytest.Blobs), up.Count(registrytest.Blobs); m != 1 || u != 1 {
		t.Errorf("mirror was asked %d times, upstream %d times, want once each", m, u)
	}
}

// A hosts.toml often names the server once more as a host.
func TestHostThatIsTheServer(t *testing.T) {
	up := registrytest.New(t, registrytest.Options{})
	l := addLayer(t, up, "a/b", 1<<16)
	up.Every(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 404})
	dir := hostsToml(t, "up.test", "server = \""+up.URL()+"\"\n[host.\""+up.URL()+"\"]\ncapabilities = [\"pull\"]\n")
	s := blobs(t, newClient(t, Options{HostsDirs: []string{dir}}), "up.test/a/b:1")
	if _, err := s.ReadBlock(t.Context(), l.ref(0, 100), nil); !errdefs.IsNotFound(err) {
		t.Errorf("missing blob: %v", err)
	}
	if n := up.Count(registrytest.Blobs); n != 1 {
		t.Errorf("the host was asked %d times, want 1", n)
	}
}

func TestHostsFileChanges(t *testing.T) {
	first := registrytest.New(t, registrytest.Options{})
	second := registrytest.New(t, registrytest.Options{})
	l := addLayer(t, first, "a/b", 1<<16)
	addLayer(t, second, "a/b", 1<<16)
	dir := hostsToml(t, "up.test", "server = \""+first.URL()+"\"\n")
	c := newClient(t, Options{HostsDirs: []string{dir}})
	s := blobs(t, c, "up.test/a/b:1")
	l.read(t.Context(), t, s, 0, 100)
	file := filepath.Join(dir, "up.test", "hosts.toml")
	if err := os.WriteFile(file, []byte("server = \""+second.URL()+"\" # moved\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.hosts["up.test"].checked = time.Now().Add(-recheck)
	c.mu.Unlock()
	l.read(t.Context(), t, s, 0, 100)
	if a, b := len(first.Requests()), len(second.Requests()); a != 1 || b != 1 {
		t.Errorf("%d requests to the first host, %d to the second, want 1 and 1", a, b)
	}
}

// TestHostIsConfiguredOnce: readers that come at the same time share one set of
// connections.
func TestHostIsConfiguredOnce(t *testing.T) {
	c := newClient(t, Options{})
	start := make(chan struct{})
	got := make(chan *namespace, 50)
	for range cap(got) {
		go func() {
			<-start
			n, err := c.namespace("reg.test")
			if err != nil {
				t.Error(err)
			}
			got <- n
		}()
	}
	close(start)
	first := <-got
	for range cap(got) - 1 {
		if n := <-got; n != first {
			t.Fatal("one host has two configurations")
		}
	}
}
