package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const placeNote = "This layer is remote: it is mounted when a container uses it.\n"

// ready makes what overlay wants to find for the parent of a snapshot where that is a remote layer. It is not made with the layer: of an
// image only the top one is ever a parent of containers, and files are a good part of what a pull costs.
func (s *snapshotter) ready(ctx context.Context, parent string) error {
	if parent == "" {
		return nil
	}
	var id string
	var info snapshots.Info
	if err := s.store.WithTransaction(ctx, false, func(ctx context.Context) (err error) {
		id, info, _, err = storage.GetInfo(ctx, parent)
		return err
	}); err != nil && !errdefs.IsNotFound(err) { // which overlay says better
		return fmt.Errorf("parent %q: %w", parent, err)
	}
	if !isRemote(info) {
		return nil
	}
	if err := s.place(id); err != nil {
		return fmt.Errorf("place of remote layer %q: %w", parent, err)
	}
	return nil
}

// place makes the tree of a remote layer. As a regular file it cannot be used as a lower or mounted by mistake.
func (s *snapshotter) place(id string) error {
	if err := os.Mkdir(filepath.Join(s.dir, id), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := os.OpenFile(s.tree(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(placeNote)
	return errors.Join(err, f.Close())
}

// discard removes the directories of a snapshot that was never mounted. It is not recursive; what is not empty stays for Cleanup.
func (s *snapshotter) discard(id string) {
	for _, dir := range []string{s.tree(id), filepath.Join(s.dir, id, "work"), filepath.Join(s.dir, id)} {
		_ = unix.Rmdir(dir)
	}
}

// tree is where overlay keeps the files of snapshot id.
func (s *snapshotter) tree(id string) string { return filepath.Join(s.dir, id, "fs") }
