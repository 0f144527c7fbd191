package registrytest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks to one registry.
type client struct {
	t *testing.T
	r *Registry
	h *http.Client
}

func newClient(t *testing.T, r *Registry) client {
	t.Helper()
	tr := &http.Transport{}
	if ca := r.CA(); ca != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		tr.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return client{t, r, &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// do makes a request and returns the answer with its body, or the error that
// reading it gave. Headers are pairs.
func (c client) do(method, path, body string, headers ...string) (answer, string, error) {
	c.t.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = c.r.URL() + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.h.Do(req)
	if err != nil {
		return answer{}, "", err
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.ContentLength, resp.Header}, string(p), err
}

// answer is what there is of a response beside its body.
type answer struct {
	StatusCode    int
	ContentLength int64
	Header        http.Header
}

func (c client) want(status int, method, path, body string, headers ...string) (answer, string) {
	c.t.Helper()
	resp, got, err := c.do(method, path, body, headers...)
	if err != nil || resp.StatusCode != status {
		c.t.Fatalf("%s %s: %v, %v, want %d", method, path, resp, err, status)
	}
	return resp, got
}

func TestUploads(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		c := newClient(t, New(t, Options{Dir: dir}))
		const text = "hello, registry"
		d := digest.FromString(text).String()
		has := func(repo string) {
			t.Helper()
			if _, got := c.want(200, "GET", "/v2/"+repo+"/blobs/"+d, ""); got != text {
				t.Errorf("%s has %q", repo, got)
			}
		}
		// In one request.
		c.want(201, "POST", "/v2/one/blobs/uploads/?digest="+d, text)
		has("one")
		// Start, then all at the end.
		resp, _ := c.want(202, "POST", "/v2/a/two/blobs/uploads/", "")
		c.want(201, "PUT", resp.Header.Get("Location")+"?digest="+d, text)
		has("a/two")
		// In chunks.
		resp, _ = c.want(202, "POST", "/v2/three/blobs/uploads/", "")
		at := resp.Header.Get("Location")
		resp, _ = c.want(202, "PATCH", at, text[:5], "Content-Range", "0-4")
		if r := resp.Header.Get("Range"); r != "0-4" {
			t.Errorf("Range is %q", r)
		}
		c.want(416, "PATCH", at, text[7:], "Content-Range", "7-14")
		c.want(202, "PATCH", at, text[5:9], "Content-Range", "5-8")
		if resp, _ = c.want(204, "GET", at, ""); resp.Header.Get("Range") != "0-8" {
			t.Errorf("status says %q", resp.Header.Get("Range"))
		}
		c.want(201, "PUT", at+"?digest="+d, text[9:])
		has("three")
		c.want(404, "PUT", at+"?digest="+d, "")
		// Of another repository.
		c.want(201, "POST", "/v2/four/blobs/uploads/?mount="+d+"&from=one", "")
		has("four")
		c.want(202, "POST", "/v2/five/blobs/uploads/?mount="+d+"&from=nowhere", "")
		// Given up, and wrong.
		resp, _ = c.want(202, "POST", "/v2/six/blobs/uploads/", "")
		c.want(204, "DELETE", resp.Header.Get("Location"), "")
		c.want(400, "POST", "/v2/six/blobs/uploads/?digest="+d, "something else")
		c.want(404, "GET", "/v2/six/blobs/"+d, "")
		c.want(404, "HEAD", "/v2/none/blobs/"+d, "")
		c.want(202, "DELETE", "/v2/one/blobs/"+d, "")
		c.want(404, "GET", "/v2/one/blobs/"+d, "")
	}
}

func TestManifestsAndTags(t *testing.T) {
	r := New(t, Options{})
	c := newClient(t, r)
	const mediaType = "application/vnd.oci.image.manifest.v1+json"
	layer, _, err := r.AddBlob("a/b", strings.NewReader("layer"))
	if err != nil {
		t.Fatal(err)
	}
	m := fmt.Sprintf(`{"config":{"digest":%q},"layers":[{"digest":%q}]}`, layer, layer)
	d := digest.FromString(m).String()
	c.want(400, "PUT", "/v2/a/b/manifests/1", strings.ReplaceAll(m, layer.String(), digest.FromString("x").String()), "Content-Type", mediaType)
	c.want(400, "PUT", "/v2/a/b/manifests/"+layer.String(), m, "Content-Type", mediaType)
	c.want(201, "PUT", "/v2/a/b/manifests/1", m, "Content-Type", mediaType)
	c.want(201, "PUT", "/v2/a/b/manifests/"+d, m, "Content-Type", mediaType)
	for _, object := range []string{"1", d} {
		resp, got := c.want(200, "GET", "/v2/a/b/manifests/"+object, "")
		if got != m || resp.Header.Get("Content-Type") != mediaType || resp.Header.Get("Docker-Content-Digest") != d {
			t.Errorf("%s: %q, %v", object, got, resp.Header)
		}
		c.want(200, "HEAD", "/v2/a/b/manifests/"+object, "")
	}
	if _, got := c.want(200, "GET", "/v2/a/b/tags/list", ""); !strings.Contains(got, `"tags":["1"]`) {
		t.Errorf("tags: %s", got)
	}
	c.want(202, "DELETE", "/v2/a/b/manifests/1", "")
	c.want(404, "GET", "/v2/a/b/manifests/1", "")
	c.want(200, "GET", "/v2/", "")
	c.want(404, "GET", "/v2/a/b/unknown/1", "")
}

func TestRanges(t *testing.T) {
	r := New(t, Options{TLS: Secure})
	c := newClient(t, r)
	d, _, err := r.AddBlob("a", strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	path := "/v2/a/blobs/" + d.String()
	for header, want := range map[string]string{"bytes=2-4": "234", "bytes=7-": "789", "bytes=8-100": "89", "bytes=0-0": "0"} {
		resp, got := c.want(206, "GET", path, "", "Range", header)
		if got != want || resp.ContentLength != int64(len(want)) {
			t.Errorf("%s: %q, %v", header, got, resp.Header)
		}
	}
	for _, header := range []string{"bytes=10-", "bytes=5-3", "bytes=x-", "lines=1-2"} {
		c.want(416, "GET", path, "", "Range", header)
	}
	if n := r.Handshakes(); n != 1 || r.Conns() != 1 {
		t.Errorf("%d handshakes, %d connections", n, r.Conns())
	}
	if n := r.TotalBytes(); n < 9 {
		t.Errorf("%d bytes sent", n)
	}
}

func TestFaults(t *testing.T) {
	r := New(t, Options{})
	c := newClient(t, r)
	d, _, err := r.AddBlob("a", bytes.NewReader(make([]byte, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	path := "/v2/a/blobs/" + d.String()
	for name, f := range map[string]Fault{"truncated": {Truncate: 100}, "chunked": {Truncate: 100, Chunked: true}} {
		r.Next(Of(Blobs), f)
		if _, got, err := c.do("GET", path, ""); err == nil || len(got) != 100 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	for name, f := range map[string]Fault{"close": {Close: true}, "reset": {Reset: true}} {
		undo := r.Every(Of(Blobs), f)
		if resp, _, err := c.do("GET", path, ""); err == nil {
			t.Errorf("%s: answered %v", name, resp)
		}
		undo()
	}
	r.Next(Of(Blobs), Fault{Flip: 501})
	if _, got := c.want(206, "GET", path, "", "Range", "bytes=500-501"); got != "\xff\x00" {
		t.Errorf("flipped: %q", got)
	}
	r.Next(Of(Blobs), Fault{IgnoreRange: true})
	if _, got := c.want(200, "GET", path, "", "Range", "bytes=500-501"); len(got) != 1000 {
		t.Errorf("range ignored: %d bytes", len(got))
	}
	r.Next(Of(Blobs), Fault{ContentRange: "bytes 1-2/3"})
	if resp, _ := c.want(206, "GET", path, "", "Range", "bytes=500-501"); resp.Header.Get("Content-Range") != "bytes 1-2/3" {
		t.Errorf("Content-Range: %v", resp.Header)
	}
	r.Next(Of(Blobs), Fault{Shift: 1})
	if resp, _ := c.want(206, "GET", path, "", "Range", "bytes=500-501"); resp.Header.Get("Content-Range") != "bytes 501-502/1000" {
		t.Errorf("shifted: %v", resp.Header)
	}
	r.Next(Of(Blobs), Fault{Status: 503, Header: http.Header{"Retry-After": {"7"}}})
	if resp, _ := c.want(503, "GET", path, ""); resp.Header.Get("Retry-After") != "7" {
		t.Errorf("status: %v", resp.Header)
	}
	r.Forget()
	c.want(200, "GET", path, "")
	if q := r.Requests(); len(q) != 1 || q[0].Sent != 1000 || q[0].Status != 200 || !q[0].Is(Blobs) {
		t.Errorf("log: %+v", q)
	}
}

func TestTokensAndRedirects(t *testing.T) {
	a := &Auth{Users: map[string]string{"u": "p"}}
	r := New(t, Options{Auth: a, Redirect: &Redirect{Hops: 2}})
	c := newClient(t, r)
	d, _, err := r.AddBlob("a", strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	path := "/v2/a/blobs/" + d.String()
	resp, _ := c.want(401, "GET", path, "")
	if h := resp.Header.Get("WWW-Authenticate"); !strings.Contains(h, `scope="repository:a:pull"`) || !strings.Contains(h, r.URL()+tokenPath) {
		t.Errorf("challenge %q", h)
	}
	c.want(401, "GET", tokenPath+"?scope=repository:a:pull", "")
	c.want(401, "GET", tokenPath+"?scope=repository:a:pull", "", "Authorization", "Basic dTp4") // u:x
	_, got := c.want(200, "GET", tokenPath+"?scope=repository:a:pull", "", "Authorization", "Basic dTpw")
	if got != `{"expires_in":60,"token":"token-1"}`+"\n" {
		t.Errorf("token answer %q", got)
	}
	c.want(401, "POST", "/v2/a/blobs/uploads/", "", "Authorization", "Bearer token-1") // may only pull
	resp, _ = c.want(307, "GET", path, "", "Authorization", "Bearer token-1")
	resp, _ = c.want(307, "GET", resp.Header.Get("Location"), "")
	at := resp.Header.Get("Location")
	if _, got := c.want(200, "GET", at, ""); got != "text" {
		t.Errorf("data %q", got)
	}
	c.want(403, "GET", strings.Replace(at, "until=", "until=9", 1), "")
	a.Revoke()
	c.want(401, "GET", path, "", "Authorization", "Bearer token-1")
	if n := len(r.Data().Requests()); n != 3 {
		t.Errorf("%d requests at the data host", n)
	}
}
