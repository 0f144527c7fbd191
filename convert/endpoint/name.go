package endpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Kind is a kind of place.
type Kind int

// Kinds of places.
const (
	Registry   Kind = iota // REFERENCE or docker://REFERENCE
	Layout                 // oci:DIR[:NAME]
	Archive                // oci-archive:FILE[:NAME] or docker-archive:FILE[:NAME]
	Containerd             // containerd://IMAGE
)

// Name says where an image is.
type Name struct {
	Kind Kind
	Path string // of a layout or archive
	// Ref is the whole reference of an image in a registry or containerd,
	// or what selects one image of a layout or archive: a name, a tag, a
	// digest or nothing.
	Ref string
}

// String returns the name in full, in a form that Parse takes.
func (n Name) String() string {
	switch n.Kind {
	case Layout:
		return strings.TrimSuffix("oci:"+n.Path+":"+n.Ref, ":")
	case Archive:
		return strings.TrimSuffix("oci-archive:"+n.Path+":"+n.Ref, ":")
	case Containerd:
		return "containerd://" + n.Ref
	default:
		return n.Ref
	}
}

// Parse reads the name of a place. Without a prefix that tells the kind it is
// a directory or archive if it looks like a path (it begins with / or . or ends
// in .tar) or is a file that exists, and else a reference. The error matches
// errdefs.ErrInvalidArgument.
func Parse(s string) (Name, error) {
	if rest, ok := strings.CutPrefix(s, "containerd://"); ok {
		if rest == "" {
			return Name{}, fmt.Errorf("%q: image name missing: %w", s, errdefs.ErrInvalidArgument)
		}
		return Name{Kind: Containerd, Ref: rest}, nil
	}
	if rest, ok := strings.CutPrefix(s, "docker://"); ok {
		return parseReference(rest)
	}
	for prefix, kind := range map[string]Kind{"oci:": Layout, "oci-archive:": Archive, "docker-archive:": Archive} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			return parsePath(kind, rest)
		}
	}
	path, _ := splitPath(s)
	if info, err := os.Stat(path); err == nil && (!info.IsDir() || isLayout(path)) {
		kind := Archive
		if info.IsDir() {
			kind = Layout
		}
		return parsePath(kind, s)
	}
	switch {
	case strings.HasSuffix(path, ".tar"):
		return parsePath(Archive, s)
	case strings.HasPrefix(s, "/"), strings.HasPrefix(s, "."):
		return parsePath(Layout, s)
	}
	return parseReference(s)
}

func isLayout(dir string) bool { return exists(filepath.Join(dir, ocispec.ImageLayoutFile)) }

func parseReference(s string) (Name, error) {
	ref, err := reference.ParseDockerRef(s)
	if err != nil {
		return Name{}, fmt.Errorf("image reference %q: %w: %w", s, err, errdefs.ErrInvalidArgument)
	}
	return Name{Kind: Registry, Ref: ref.String()}, nil
}

func parsePath(kind Kind, s string) (Name, error) {
	path, ref := splitPath(s)
	if path == "" {
		return Name{}, fmt.Errorf("%q: path missing: %w", s, errdefs.ErrInvalidArgument)
	}
	return Name{Kind: kind, Path: path, Ref: ref}, nil
}

// splitPath splits PATH:NAME and PATH@DIGEST. The shortest path that exists
// wins, since a path may have colons in it; else the first colon ends it.
func splitPath(s string) (path, ref string) {
	if exists(s) {
		return s, ""
	}
	for i, r := range s {
		if (r == ':' || r == '@') && exists(s[:i]) {
			return s[:i], s[i+1:]
		}
	}
	if path, ref, ok := strings.Cut(s, "@"); ok {
		return path, ref
	}
	path, ref, _ = strings.Cut(s, ":")
	return path, ref
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
