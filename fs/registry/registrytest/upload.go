package registrytest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/opencontainers/go-digest"
)

// upload is a blob on its way in. Requests for one upload come one at a time,
// so its file needs no lock. Unlinked from the start: a registry that is closed
// in the middle leaves nothing.
type upload struct {
	name string // of the repository
	f    *os.File
	size int64
}

func newUpload(name string) (*upload, error) {
	f, err := os.CreateTemp("", "registrytest-upload-*")
	if err != nil {
		return nil, err
	}
	return &upload{name: name, f: f}, os.Remove(f.Name())
}

func (r *Registry) serveUpload(w http.ResponseWriter, req *http.Request, name, id string) {
	if id == "" && req.Method == http.MethodPost {
		r.startUpload(w, req, name)
		return
	}
	r.mu.Lock()
	u := r.ups[id]
	if req.Method == http.MethodDelete || req.Method == http.MethodPut {
		delete(r.ups, id)
	}
	r.mu.Unlock()
	if u == nil || u.name != name {
		fail(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "no such upload")
		return
	}
	switch req.Method {
	case http.MethodGet:
		u.answer(w, id, http.StatusNoContent)
	case http.MethodDelete:
		_ = u.f.Close()
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPatch:
		if u.append(w, req) {
			u.answer(w, id, http.StatusAccepted)
		}
	case http.MethodPut:
		defer u.f.Close()
		if u.append(w, req) {
			r.finish(w, req, u)
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// startUpload answers POST: a mount of a blob of another repository, a whole
// blob in the body, or the start of an upload.
func (r *Registry) startUpload(w http.ResponseWriter, req *http.Request, name string) {
	q := req.URL.Query()
	if d := digest.Digest(q.Get("mount")); d != "" && r.mount(w, req, name, q.Get("from"), d) {
		return
	}
	u, err := newUpload(name)
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	if q.Get("digest") != "" {
		defer u.f.Close()
		if u.append(w, req) {
			r.finish(w, req, u)
		}
		return
	}
	r.mu.Lock()
	r.next++
	id := strconv.Itoa(r.next)
	r.ups[id] = u
	r.mu.Unlock()
	u.answer(w, id, http.StatusAccepted)
}

func (r *Registry) mount(w http.ResponseWriter, req *http.Request, name, from string, d digest.Digest) bool {
	r.mu.Lock()
	src := r.repos[from]
	ok := src != nil && src.blobs[d] && r.auth.can(req, from, "pull")
	if ok {
		r.repo(name).blobs[d] = true
	}
	r.mu.Unlock()
	if ok {
		created(w, name, d)
	}
	return ok
}

func created(w http.ResponseWriter, name string, d digest.Digest) {
	w.Header().Set("Location", "/v2/"+name+"/blobs/"+d.String())
	w.Header().Set("Docker-Content-Digest", d.String())
	w.WriteHeader(http.StatusCreated)
}

func (u *upload) answer(w http.ResponseWriter, id string, status int) {
	w.Header().Set("Location", "/v2/"+u.name+"/blobs/uploads/"+id)
	w.Header().Set("Docker-Upload-UUID", id)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(0, u.size-1)))
	w.WriteHeader(status)
}

// append adds the body. A Content-Range must go on where the upload stands.
func (u *upload) append(w http.ResponseWriter, req *http.Request) bool {
	var from, to int64
	if s := req.Header.Get("Content-Range"); s != "" {
		if _, err := fmt.Sscanf(s, "%d-%d", &from, &to); err != nil || from != u.size {
			fail(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "chunk out of order")
			return false
		}
	}
	n, err := io.Copy(io.NewOffsetWriter(u.f, u.size), req.Body)
	u.size += n
	if err != nil {
		fail(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "body ended early")
		return false
	}
	return true
}

func (r *Registry) finish(w http.ResponseWriter, req *http.Request, u *upload) {
	want := digest.Digest(req.URL.Query().Get("digest"))
	got, err := digest.SHA256.FromReader(io.NewSectionReader(u.f, 0, u.size))
	if err != nil || got != want {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", "provided digest did not match uploaded content")
		return
	}
	if _, _, err := r.AddBlob(u.name, io.NewSectionReader(u.f, 0, u.size)); err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	created(w, u.name, got)
}
