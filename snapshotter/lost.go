package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
)

// setLostAside renames directories of snapshots that the metadata does not know. Overlay names a new snapshot's directory before its
// transaction commits; after a crash in between the same id is given again, and every Prepare would fail on the directory that is there.
// Renaming is quick however much they hold; the next Cleanup removes them.
func (s *snapshotter) setLostAside(ctx context.Context) error {
	known := map[string]string{}
	if err := s.store.WithTransaction(ctx, false, func(ctx context.Context) (err error) {
		known, err = storage.IDMap(ctx)
		return err
	}); err != nil && !errdefs.IsNotFound(err) { // NotFound: nothing was ever stored
		return fmt.Errorf("list snapshots: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id := e.Name()
		if _, live := known[id]; live {
			continue
		}
		if _, err := strconv.ParseUint(id, 10, 64); err != nil { // one that was never named, or set aside before
			continue
		}
		aside, err := os.MkdirTemp(s.dir, "lost-")
		if err == nil {
			err = os.Rename(filepath.Join(s.dir, id), filepath.Join(aside, id))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
