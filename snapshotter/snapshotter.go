// Package snapshotter adds remote layers to containerd's overlay snapshotter.
//
// A remote layer is a committed snapshot whose content is not unpacked: a Mounter mounts it, together with its remote neighbours, when a
// container, a view or the unpacking of a layer above needs it. Look-ups, upper directories, id maps and clean-up stay
// those of containerd's overlay snapshotter, which is wrapped, never copied.
//
// What holds at any time:
//   - A lower directory that leaves this package is the root of a live mount or the directory of an unpacked layer. Some callers mount what
//     Prepare or View returned without ever calling Mounts, and an empty lower is an empty container without an error.
//   - The directory that overlay keeps for a layer holds, for a remote one, a regular file where others have their tree, or is not there:
//     using it as a lower fails.
//   - Prepare, View, Commit, Remove, Stat, Walk and Usage are bounded whatever the Mounter does: containerd holds locks around them that stop
//     the whole host.
//   - Nothing is mounted at start. Mounts after a restart mounts again.
//
// Locks, outermost first: the turn of a user (see users), then a transaction of the metadata store. The Mounter is called with the turn held
// and never inside a transaction. Transactions never nest: a reader inside a reader deadlocks when a writer grows the file.
package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	bolt "go.etcd.io/bbolt"
)

// lockWait is how long New waits for another process to let go of the metadata file.
const lockWait = 5 * time.Second

type snapshotter struct {
	snapshots.Snapshotter // overlay: all that is not about remote layers

	config
	dir     string // overlay's directories: <dir>/<id>/fs, <dir>/<id>/work
	store   overlay.MetaStore
	mounter Mounter
	users   users
	calls   calls
	claims  claims
	metrics *metrics
}

// New returns an overlay snapshotter under root whose layers m may mount. The caller closes it; m's mounts outlive it.
func New(ctx context.Context, root string, m Mounter, opts ...Opt) (snapshots.Snapshotter, error) {
	store, err := storage.NewMetaStore(filepath.Join(root, "metadata.db"), func(o *bolt.Options) error {
		o.Timeout = lockWait
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, err := newSnapshotter(root, store, m, opts...)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	// The store opens its file at first use; a second daemon on the same root should fail here.
	if err := store.WithTransaction(ctx, false, func(context.Context) error { return nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", root, err), store.Close())
	}
	if err := s.setLostAside(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("directories of an earlier crash: %w", err), store.Close())
	}
	if err := s.retain(ctx); err != nil { // the next removal says it again
		log.G(ctx).WithError(err).Warn("the mounter does not know which layers there are")
	}
	return s, nil
}

func newSnapshotter(root string, store overlay.MetaStore, m Mounter, opts ...Opt) (*snapshotter, error) {
	if err := plain(root); err != nil {
		return nil, err
	}
	c := defaults()
	for _, o := range opts {
		o(&c)
	}
	metrics, err := newMetrics(c.registerer)
	if err != nil {
		return nil, err
	}
	inner, err := overlay.NewSnapshotter(root, append(c.overlay, overlay.WithMetaStore(store), overlay.AsynchronousRemove)...)
	if err != nil {
		return nil, err
	}
	return &snapshotter{
		Snapshotter: inner,
		config:      c,
		dir:         filepath.Join(root, "snapshots"),
		store:       store,
		mounter:     m,
		metrics:     metrics,
	}, nil
}

// Close waits for the calls into the Mounter, at most closeWait, and closes the metadata store. It unmounts nothing: containers run on.
func (s *snapshotter) Close() error {
	return errors.Join(s.calls.close(s.closeWait), s.Snapshotter.Close())
}

// plain refuses a path that overlayfs or containerd would split in a list of options.
func plain(path string) error {
	if !filepath.IsAbs(path) || strings.ContainsAny(path, `:,\`) {
		return fmt.Errorf("%q cannot be used in mount options: absolute path without ':', ',' and '\\' needed: %w", path, errdefs.ErrInvalidArgument)
	}
	return nil
}
