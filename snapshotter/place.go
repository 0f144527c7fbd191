package snapshotter

import (
	"context"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"golang.org/x/sys/unix"
)

const placeNote = "This layer is remote: it is mounted when a container uses it.\n"

// place makes what overlay wants to find for a parent. As a regular file it cannot be used as a lower or mounted by mistake.
func (s *snapshotter) place(id string) error {
	if err := os.Mkdir(filepath.Join(s.dir, id), 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return os.WriteFile(s.tree(id), []byte(placeNote), 0o444)
}

// displace removes what place made and nothing else: by now id may name a new snapshot, whose tree is a directory.
func (s *snapshotter) displace(id string) {
	_ = unix.Unlink(s.tree(id))
	_ = unix.Rmdir(filepath.Join(s.dir, id))
}

// replace makes the place of a remote layer again where it was lost, and tells whether it did.
func (s *snapshotter) replace(ctx context.Context, name string) bool {
	var id string
	var info snapshots.Info
	err := s.store.WithTransaction(ctx, false, func(ctx context.Context) (err error) {
		id, info, _, err = storage.GetInfo(ctx, name)
		return err
	})
	return err == nil && isRemote(info) && s.place(id) == nil
}

// discard removes the directories of a snapshot that was never mounted. It is not recursive; what is not empty stays for Cleanup.
func (s *snapshotter) discard(id string) {
	for _, dir := range []string{s.tree(id), filepath.Join(s.dir, id, "work"), filepath.Join(s.dir, id)} {
		_ = unix.Rmdir(dir)
	}
}

// tree is where overlay keeps the files of snapshot id.
func (s *snapshotter) tree(id string) string { return filepath.Join(s.dir, id, "fs") }
