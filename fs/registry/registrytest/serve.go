package registrytest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// counter counts the bytes of an answer into the log.
type counter struct {
	http.ResponseWriter
	r *record
	q *Request
}

// Unwrap lets http.ResponseController reach the connection.
func (c counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c counter) WriteHeader(status int) {
	c.r.mu.Lock()
	c.q.Status = status
	c.r.mu.Unlock()
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.q.Status == 0 {
		c.q.Status = http.StatusOK
	}
	c.q.Sent += int64(n)
	return n, err
}

// logged records a request and its answer around h.
func (r *record) logged(w http.ResponseWriter, req *http.Request, h func(http.ResponseWriter)) {
	q := r.add(req)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		q.Done = true
	}()
	h(counter{w, r, q})
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	r.logged(w, req, func(w http.ResponseWriter) {
		f := r.fault(req)
		if !r.before(w, req, f) {
			return
		}
		if wait, over := r.limit.take(); over {
			if wait != "" {
				w.Header().Set("Retry-After", wait)
			}
			fail(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "rate limit")
			return
		}
		if req.URL.Path == tokenPath && r.auth != nil {
			r.auth.serveToken(w, req)
			return
		}
		r.route(w, req, f)
	})
}

var pathRE = regexp.MustCompile(`^(.*)/v2/(.+)/(manifests|blobs|tags|referrers)/(.*)$`)

// route finds the handler. A path prefix before /v2 is accepted, and so are
// paths without /v2 below /prefix/: mirrors may have either (override_path).
func (r *Registry) route(w http.ResponseWriter, req *http.Request, f Fault) {
	path := strings.TrimPrefix(req.URL.Path, "/prefix")
	if path != req.URL.Path && !strings.HasPrefix(path, "/v2/") {
		path = "/v2" + path
	}
	if path == "/v2/" || path == "/v2" {
		if r.auth.allow(w, req, "", "") {
			w.WriteHeader(http.StatusOK)
		}
		return
	}
	m := pathRE.FindStringSubmatch(path)
	if m == nil {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "no such path")
		return
	}
	name, kind, object := m[2], m[3], m[4]
	action := "pull"
	if req.Method != http.MethodGet && req.Method != http.MethodHead || strings.HasPrefix(object, "uploads/") {
		action = "push"
	}
	if !r.auth.allow(w, req, name, action) {
		return
	}
	switch {
	case kind == "blobs" && strings.HasPrefix(object, "uploads/"):
		r.serveUpload(w, req, name, strings.TrimPrefix(object, "uploads/"))
	case kind == "blobs":
		r.serveBlob(w, req, name, object, f)
	case kind == "manifests":
		r.serveManifest(w, req, name, object, f)
	case kind == "tags" && object == "list":
		r.serveTags(w, name)
	default:
		fail(w, http.StatusNotFound, "UNSUPPORTED", "not served here")
	}
}

// fail answers with the error document of the distribution specification.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.NewEncoder(w).Encode(map[string][]item{"errors": {{code, message}}})
}
