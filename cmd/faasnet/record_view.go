package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/image-spec/identity"
)

// lower mounts the image without a container, with nothing to be written to its
// disks, and has little read ahead from them, for as long as f runs.
func (r *recording) lower(ctx context.Context, f func(root string) error) error {
	diffIDs, err := r.image.RootFS(ctx)
	if err != nil {
		return err
	}
	sn, key := r.client.SnapshotService(r.snapshotter), r.me.name("view")
	mounts, err := sn.View(ctx, key, identity.ChainID(diffIDs).String())
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer r.tidy(ctx, "snapshot "+key, func(ctx context.Context) error { return sn.Remove(ctx, key) })
	dir := runtimeDir(filepath.Join(r.runtime, key))
	defer r.tidy(ctx, string(dir), func(context.Context) error {
		return errors.Join(restoreReadahead("/sys", dir.readahead()), dir.remove())
	})
	if err := dir.create(); err != nil {
		return err
	}
	disks := lowerDirs(mounts)
	if err := flush(disks); err != nil {
		return fmt.Errorf("write dirty pages: %w", err)
	}
	if !r.keepReadahead {
		if err := lessReadahead("/sys", dir.readahead(), disks, func(disk string, kib int) {
			fmt.Fprintf(r.stderr, "faasnet: %s is %d instead of %d until the recording ends\n", disk, readahead, kib)
		}); err != nil {
			fmt.Fprintf(r.stderr, "faasnet: warning: large files may look more used than they are: readahead: %v\n", err)
		}
	}
	if err := mount.All(mounts, dir.root()); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return f(dir.root())
}
