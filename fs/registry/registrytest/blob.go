package registrytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
)

func (r *Registry) serveBlob(w http.ResponseWriter, req *http.Request, name, object string, f Fault) {
	d := digest.Digest(object)
	r.mu.Lock()
	p := r.repos[name]
	ok := p != nil && p.blobs[d]
	if ok && req.Method == http.MethodDelete {
		delete(p.blobs, d)
	}
	r.mu.Unlock()
	switch {
	case !ok:
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
	case req.Method == http.MethodDelete:
		w.WriteHeader(http.StatusAccepted)
	case r.data != nil:
		r.data.redirect(w, d)
	default:
		r.sendBlob(w, req, d, f)
	}
}

// sendBlob answers GET and HEAD of a blob, or a range of it.
func (r *Registry) sendBlob(w http.ResponseWriter, req *http.Request, d digest.Digest, f Fault) {
	b, size, err := r.blobs.open(d)
	if err != nil {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
		return
	}
	defer b.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Docker-Content-Digest", d.String())
	off, n, ranged := int64(0), size, false
	if s := req.Header.Get("Range"); s != "" && !f.IgnoreRange {
		h.Set("Accept-Ranges", "bytes")
		if off, n, ranged = parseRange(s, size); !ranged {
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			fail(w, http.StatusRequestedRangeNotSatisfiable, "SIZE_INVALID", "range not satisfiable")
			return
		}
	}
	if !ranged {
		r.send(w, req, http.StatusOK, b, 0, size, f)
		return
	}
	off += f.Shift
	n = min(n, size-off)
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, size))
	if f.ContentRange != "" {
		h.Set("Content-Range", f.ContentRange)
	}
	r.send(w, req, http.StatusPartialContent, b, off, n, f)
}

// parseRange reads one range of bytes of a header.
func parseRange(s string, size int64) (off, n int64, ok bool) {
	s, found := strings.CutPrefix(s, "bytes=")
	from, to, cut := strings.Cut(s, "-")
	if !found || !cut {
		return 0, 0, false
	}
	off, err := strconv.ParseInt(from, 10, 64)
	if err != nil || off < 0 || off >= size {
		return 0, 0, false
	}
	last := size - 1
	if to != "" {
		if last, err = strconv.ParseInt(to, 10, 64); err != nil || last < off {
			return 0, 0, false
		}
	}
	return off, min(last, size-1) - off + 1, true
}
