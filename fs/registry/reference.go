package registry

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// name is a repository: the host that references name, and the path there.
type name struct {
	host string // with the port, if any
	path string
}

// String is the form without tag and digest.
func (n name) String() string { return n.host + "/" + n.path }

// parse reads an image reference as containerd's CRI does: familiar names are
// completed (busybox is docker.io/library/busybox); tag and digest do not
// matter for blobs.
func parse(ref string) (name, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return name{}, fmt.Errorf("image reference %q: %w: %w", ref, err, errdefs.ErrInvalidArgument)
	}
	return name{host: reference.Domain(named), path: reference.Path(named)}, nil
}
