package snapshotter

import "context"

// A Mounter knows what the labels of a remote layer mean and mounts runs of remote layers.
//
// It must be safe for concurrent use. Calls for one user never overlap. A call should return soon after its context ends; one that does not
// is left behind, and what it brings about is released later.
type Mounter interface {
	// Claim returns nil when the layer that labels describe will be served without unpacking it. Otherwise the text of the error is the reason
	// that is logged, and its errdefs class the one that is counted: ErrNotFound for a layer that is not converted, ErrInvalidArgument for labels
	// that cannot be read, ErrFailedPrecondition for a host that cannot mount, ErrUnavailable. Claim must not use the network; it may start to
	// fetch what a mount will need. The same layer is claimed again whenever an image that has it is pulled in another namespace.
	Claim(ctx context.Context, labels map[string]string) error

	// Mount returns a directory that shows the merge of run, whose elements are labels of layers, bottom first. It is the root of a mount, its
	// path has no ':' or ',', and a stat of it needs no network. lower are the directories below the run, top first, all live: an entry that
	// deletes something there is kept as overlayfs whiteout or opaque mark, and a directory that no layer of run mentions itself looks as in lower.
	//
	// The mount belongs to user, the id of a snapshot, until Release(user). One user may have several runs mounted. A run that user already has is
	// the same directory. Mount waits no longer than ctx, and returns ErrUnavailable when the run cannot be mounted by then.
	Mount(ctx context.Context, user string, run []map[string]string, lower []string) (dir string, err error)

	// Release gives back all that user has. It is idempotent, and unmounts at least lazily whatever the network does.
	Release(ctx context.Context, user string) error

	// Retain says which remote layers still exist, by their labels, once at the start and after each removal; all that belongs to others may be dropped. A layer that is claimed while
	// Retain runs may be absent: dropping what is kept of it must cost no more than fetching it again.
	Retain(ctx context.Context, live []map[string]string) error
}
