package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/sys/mountinfo"
)

// Commit makes a layer of what was unpacked, as overlay does. The layers below are not looked at.
func (s *snapshotter) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	id, _ := s.id(ctx, key) // overlay reports a missing key
	if err := s.Snapshotter.Commit(ctx, name, key, unmarked(opts)...); err != nil {
		return err
	}
	s.releaseSoon(ctx, id)
	return nil
}

// Remove takes the snapshot out of the metadata. Its mounts are released behind the caller's back, its directories are left to Cleanup.
func (s *snapshotter) Remove(ctx context.Context, key string) error {
	id, _ := s.id(ctx, key)
	if err := s.Snapshotter.Remove(ctx, key); err != nil {
		return err
	}
	s.releaseSoon(ctx, id)
	return nil
}

// releaseSoon releases id without waiting. What fails is tried again by Cleanup.
func (s *snapshotter) releaseSoon(ctx context.Context, id string) {
	if !s.users.known(id) {
		return
	}
	s.calls.start(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.releaseWait)
		defer cancel()
		if err := s.release(ctx, id); err != nil {
			log.G(ctx).WithError(err).WithField("id", id).Warn("mounts of a snapshot are not released yet")
		}
	})
}

// Cleanup releases the mounts of snapshots that are gone, tells the Mounter which remote layers are left, and lets overlay remove directories.
// Each step is tried whatever becomes of the others.
func (s *snapshotter) Cleanup(ctx context.Context) error {
	return errors.Join(s.releaseGone(ctx), s.retain(ctx), s.cleanDirs(ctx))
}

func (s *snapshotter) releaseGone(ctx context.Context) error {
	ids := s.users.ids() // before the listing: a snapshot is stored before it is a user
	if len(ids) == 0 {
		return nil
	}
	var gone []string
	if err := s.store.WithTransaction(ctx, false, func(ctx context.Context) error {
		keys, err := storage.IDMap(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			key, ok := keys[id]
			if !ok {
				gone = append(gone, id)
			} else if _, info, _, err := storage.GetInfo(ctx, key); err == nil && info.Kind == snapshots.KindCommitted {
				gone = append(gone, id)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.releaseWait)
	defer cancel()
	_, err := within(ctx, &s.calls, func(ctx context.Context) (struct{}, error) {
		var errs []error
		for _, id := range gone {
			errs = append(errs, s.release(ctx, id))
		}
		return struct{}{}, errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("release mounts of removed snapshots: %w", err)
	}
	return nil
}

func (s *snapshotter) retain(ctx context.Context) error {
	live := s.claims.list() // before the listing: a claim is stored before it leaves the list
	err := s.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if isRemote(info) {
			live = append(live, info.Labels)
		}
		return nil
	})
	if err != nil && !errdefs.IsNotFound(err) { // NotFound: nothing was ever stored
		return fmt.Errorf("list remote layers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.releaseWait)
	defer cancel()
	if _, err := within(ctx, &s.calls, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.mounter.Retain(ctx, live)
	}); err != nil {
		return fmt.Errorf("retain remote layers: %w", err)
	}
	return nil
}

// cleanDirs lets overlay remove, recursively, the directories of removed snapshots, but never with a mount below them.
func (s *snapshotter) cleanDirs(ctx context.Context) error {
	dir, err := filepath.EvalSymlinks(s.dir) // as the kernel names it
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		points := make([]string, len(mounts))
		for i, m := range mounts {
			points[i] = strings.TrimPrefix(m.Mountpoint, dir+"/")
		}
		return fmt.Errorf("directories of removed snapshots are kept: mounted are %s: %w", strings.Join(points, ", "), errdefs.ErrFailedPrecondition)
	}
	cleaner, ok := s.Snapshotter.(snapshots.Cleaner)
	if !ok {
		return fmt.Errorf("overlay has no Cleanup: %w", errdefs.ErrNotImplemented)
	}
	return cleaner.Cleanup(ctx)
}
