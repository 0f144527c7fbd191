package registrytest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// maxManifest is the largest manifest that is taken, in bytes.
const maxManifest = 4 << 20

func (r *Registry) serveManifest(w http.ResponseWriter, req *http.Request, name, object string, f Fault) {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		r.getManifest(w, req, name, object, f)
	case http.MethodPut:
		r.putManifest(w, req, name, object)
	case http.MethodDelete:
		r.mu.Lock()
		defer r.mu.Unlock()
		p := r.repo(name)
		delete(p.tags, object)
		delete(p.manifests, digest.Digest(object))
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (r *Registry) getManifest(w http.ResponseWriter, req *http.Request, name, object string, f Fault) {
	d, mediaType, ok := r.Manifest(name, object)
	if !ok {
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	b, size, err := r.blobs.open(d)
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	defer b.Close()
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", d.String())
	r.send(w, req, http.StatusOK, b, 0, size, f)
}

// Manifest finds a manifest by tag or digest, past the API.
func (r *Registry) Manifest(name, object string) (d digest.Digest, mediaType string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.repos[name]
	if p == nil {
		return "", "", false
	}
	if d, ok = p.tags[object]; !ok {
		d = digest.Digest(object)
	}
	mediaType, ok = p.manifests[d]
	return d, mediaType, ok
}

func (r *Registry) putManifest(w http.ResponseWriter, req *http.Request, name, object string) {
	p, err := io.ReadAll(io.LimitReader(req.Body, maxManifest))
	if err != nil {
		return
	}
	d := digest.FromBytes(p)
	if strings.Contains(object, ":") && object != d.String() {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", "provided digest did not match uploaded content")
		return
	}
	if missing := r.missing(name, p); missing != "" {
		fail(w, http.StatusBadRequest, "MANIFEST_BLOB_UNKNOWN", missing.String())
		return
	}
	if err := r.AddManifest(name, object, req.Header.Get("Content-Type"), p); err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	w.Header().Set("Location", "/v2/"+name+"/manifests/"+d.String())
	w.Header().Set("Docker-Content-Digest", d.String())
	w.WriteHeader(http.StatusCreated)
}

// AddManifest puts a manifest into a repository, past the API and without a
// look at what it names. Object is a tag or the digest.
func (r *Registry) AddManifest(name, object, mediaType string, p []byte) error {
	d, _, err := r.blobs.put(bytes.NewReader(p))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.repo(name)
	repo.manifests[d] = mediaType
	if !strings.Contains(object, ":") {
		repo.tags[object] = d
	}
	return nil
}

// missing returns the first blob or manifest that a manifest names and the
// repository does not have.
func (r *Registry) missing(name string, p []byte) digest.Digest {
	type desc struct{ Digest digest.Digest }
	var m struct {
		Config    *desc
		Layers    []desc
		Manifests []desc
	}
	if json.Unmarshal(p, &m) != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	repo := r.repo(name)
	if m.Config != nil {
		m.Layers = append(m.Layers, *m.Config)
	}
	for _, l := range m.Layers {
		if !repo.blobs[l.Digest] {
			return l.Digest
		}
	}
	for _, l := range m.Manifests {
		if _, ok := repo.manifests[l.Digest]; !ok {
			return l.Digest
		}
	}
	return ""
}

func (r *Registry) serveTags(w http.ResponseWriter, name string) {
	r.mu.Lock()
	p := r.repos[name]
	var tags []string
	if p != nil {
		tags = slices.Sorted(maps.Keys(p.tags))
	}
	r.mu.Unlock()
	if p == nil {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "repository name not known to registry")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags})
}
