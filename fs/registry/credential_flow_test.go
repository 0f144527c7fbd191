package registry

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSE04_CredentialsAndRedirects(t *testing.T) {
	https, loopback := &endpoint{}, &endpoint{fallback: true}
	for _, e := range []*endpoint{https, loopback} {
		e.Scheme, e.Host = "https", "reg.example:5000"
	}
	plain := &endpoint{}
	plain.Scheme, plain.Host = "http", "reg.example:5000"
	for _, c := range []struct {
		e    *endpoint
		to   string
		want bool
	}{
		{https, "https://reg.example:5000/x", true},
		{https, "https://reg.example:6000/x", true}, // the port does not matter to containerd
		{https, "http://reg.example:5000/x", false}, // nothing leaves TLS
		{https, "https://cdn.example/x", false},
		{https, "https://sub.reg.example:5000/x", false},
		{https, "https://reg.example.evil/x", false},
		{plain, "http://reg.example:5000/x", true},
		{plain, "https://reg.example/x", true},
		{plain, "http://cdn.example/x", false},
		{loopback, "http://reg.example:5000/x", true},
	} {
		if got := c.e.trusts(mustURL(t, c.to)); got != c.want {
			t.Errorf("%s://%s to %s: %v, want %v", c.e.Scheme, c.e.Host, c.to, got, c.want)
		}
	}
}

// TestSE04_OnTheWire looks at what really arrives at another host, at another
// port of the same host, and on containerd's own way through Resolver.
func TestSE04_OnTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		addr  string
		basic bool
		want  bool
	}{
		"other host, token":     {"127.0.0.2:0", false, false},
		"other host, basic":     {"127.0.0.2:0", true, false},
		"same host, other port": {"127.0.0.1:0", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{
				Auth:     &registrytest.Auth{Basic: c.basic, Users: map[string]string{"u": "p"}},
				Redirect: &registrytest.Redirect{Addr: c.addr},
			})
			l := addLayer(t, reg, "a/b", 1<<20)
			cl := newClient(t, Options{Credentials: static("u", "p")})
			s := blobs(t, cl, reg.Host()+"/a/b")
			l.read(t.Context(), t, s, 0, 1000)
			l.read(t.Context(), t, s, 1000, 1000) // from the remembered location
			fetch(t.Context(), t, cl.Resolver(), reg.Host()+"/a/b:x", descriptor("application/x", l.bytes))
			got := reg.Data().Requests()
			if len(got) != 3 {
				t.Errorf("%d requests at the data host, want 3", len(got))
			}
			for _, q := range got {
				if has := q.Header.Get("Authorization") != ""; has != c.want {
					t.Errorf("request with Range %q has credentials: %v, want %v", q.Header.Get("Range"), has, c.want)
				}
			}
		})
	}
}

// TestRedirectHostWithItsOwnChallenge: a host that blobs are redirected to may
// ask for credentials of its own.
func TestRedirectHostWithItsOwnChallenge(t *testing.T) {
	data := registrytest.New(t, registrytest.Options{Addr: "127.0.0.2:0", Auth: &registrytest.Auth{Users: map[string]string{"data": "d"}}})
	l := addLayer(t, data, "a/b", 1<<20)
	var mu sync.Mutex
	var seen []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		http.Redirect(w, r, data.URL()+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	ask := byHost{data.Host(): {Username: "data", Password: "d"}}
	s := blobs(t, newClient(t, Options{Credentials: ask.get}), mustURL(t, front.URL).Host+"/a/b")
	l.read(t.Context(), t, s, 0, 1000)
	l.read(t.Context(), t, s, 1000, 1000)
	mu.Lock()
	defer mu.Unlock()
	for _, a := range seen {
		if a != "" {
			t.Errorf("the front got %q", a)
		}
	}
	if n := len(data.Requests()); n != 4 { // 401, token, block, block
		t.Errorf("%d requests at the data host, want 4", n)
	}
}
