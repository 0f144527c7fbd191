package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// proxy is an http proxy that logs what it is asked, CONNECT or not, and leads
// everything to one address.
type proxy struct {
	to string

	mu  sync.Mutex // guards log
	log []string
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.log = append(p.log, r.Method+" "+r.Host+" "+r.URL.Path)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		out := r.Clone(r.Context())
		out.URL.Host, out.RequestURI = p.to, ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
		return
	}
	there, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(there, rw); _ = there.Close() })
	both.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
	both.Wait()
}

// inProxyChild names the environment of the process that TestRA14_Proxy starts:
// net/http reads the proxy's variables once a process.
const inProxyChild = "FAASNET_TEST_PROXY_HOST"

// noProxyOption in its environment leaves Options.Proxy nil.
const noProxyOption = "FAASNET_TEST_PROXY_NONE"

func TestRA14_Proxy(t *testing.T) {
	if name := os.Getenv(inProxyChild); name != "" {
		readByProxy(t, name)
		return
	}
	for _, tls := range []registrytest.TLS{registrytest.Plain, registrytest.Secure} {
		// A name that cannot be resolved here: only the proxy leads there.
		const name = "registry.invalid:5000"
		reg := registrytest.New(t, registrytest.Options{Name: name, TLS: tls, Auth: &registrytest.Auth{Users: users}})
		addLayer(t, reg, "a/b", 1<<16)
		p := &proxy{to: reg.Addr()}
		srv := newServer(t, p)
		run := func(env ...string) (string, error) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRA14_Proxy$")
			cmd.Env = append(os.Environ(), append(env, inProxyChild+"="+reg.URL())...)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		none := []string{"HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=", "http_proxy=", "https_proxy=", "no_proxy="}
		with := append(slices.Clone(none), "HTTP_PROXY="+srv, "HTTPS_PROXY="+srv)
		if out, err := run(append(with, "NO_PROXY=127.0.0.0/8,.svc")...); err != nil {
			t.Errorf("through the proxy: %v\n%s", err, out)
		}
		p.mu.Lock()
		log := strings.Join(p.log, "\n")
		p.log = nil
		p.mu.Unlock()
		want := []string{"CONNECT " + name}
		if tls == registrytest.Plain {
			want = []string{"GET " + name + " /v2/a/b/blobs/", "GET " + name + " /token", "HEAD " + name + " /v2/a/b/manifests/"}
		}
		for _, w := range want {
			if !strings.Contains(log, w) {
				t.Errorf("proxy did not see %q, but\n%s", w, log)
			}
		}
		for _, env := range [][]string{none, append(with, "NO_PROXY=.invalid"), append(with, noProxyOption+"=1")} {
			if out, err := run(env...); err == nil || !strings.Contains(out, errNoProxy.Error()) {
				t.Errorf("a host that only the proxy knows, without it: %v\n%s", err, out)
			}
		}
		p.mu.Lock()
		if len(p.log) != 0 {
			t.Errorf("proxy was asked although it should not be: %q", p.log)
		}
		p.mu.Unlock()
	}
}

// errNoProxy is what the child gets when it does not ask the proxy.
var errNoProxy = errors.New("only the proxy leads there")

func readByProxy(t *testing.T, target string) {
	t.Helper()
	u := mustURL(t, target)
	o := Options{Credentials: static("u", "p"), Proxy: http.ProxyFromEnvironment, Attempts: 1}
	if os.Getenv(noProxyOption) != "" {
		o.Proxy = nil
	}
	o.SkipVerify = []string{u.Host}
	if u.Scheme == "http" {
		o.PlainHTTP = []string{u.Host}
	}
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == u.Host {
			return nil, errNoProxy
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	c := newClient(t, o)
	// The layer of addLayer: its bytes are the same in each process.
	l := addLayer(t, registrytest.New(t, registrytest.Options{}), "a/b", 1<<16)
	l.read(t.Context(), t, blobs(t, c, u.Host+"/a/b"), 0, 100)
	_, _, err := c.Resolver().Resolve(t.Context(), u.Host+"/a/b:none")
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("resolve: %v", err)
	}
}
