package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// Prepare makes an active snapshot. One that is to become a layer is committed at once, and ErrAlreadyExists returned, when the Mounter claims it.
func (s *snapshotter) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	labels, err := labelsOf(opts)
	if err != nil {
		return nil, err
	}
	target := labels[snapshots.LabelSnapshotRef]
	if target == "" {
		if isUnpack(key) {
			s.unpacked(log.G(ctx).WithField("key", key).WithField("parent", parent), errSilent)
		}
		return s.create(ctx, s.Snapshotter.Prepare, s.prepareWait, key, parent, opts)
	}
	if s.claim(ctx, key, parent, target, labels) {
		return nil, fmt.Errorf("target snapshot %q: %w", target, errdefs.ErrAlreadyExists)
	}
	return s.create(ctx, s.Snapshotter.Prepare, s.unpackWait, key, parent, opts)
}

// View makes a read-only snapshot.
func (s *snapshotter) View(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	return s.create(ctx, s.Snapshotter.View, s.prepareWait, key, parent, opts)
}

// Mounts returns the mounts of an active snapshot or a view, with all remote layers below mounted.
func (s *snapshotter) Mounts(ctx context.Context, key string) ([]mount.Mount, error) {
	mounts, err := s.Snapshotter.Mounts(ctx, key)
	if err != nil {
		return nil, err
	}
	c, err := s.chain(ctx, key)
	if err != nil {
		return nil, err
	}
	mounts, _, err = s.over(ctx, c, mounts, s.mountsWait)
	return mounts, err
}

type createFunc func(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error)

func (s *snapshotter) create(ctx context.Context, inner createFunc, wait time.Duration, key, parent string, opts []snapshots.Opt) ([]mount.Mount, error) {
	if err := s.ready(ctx, parent); err != nil {
		return nil, err
	}
	mounts, err := inner(ctx, key, parent, opts...)
	if err != nil {
		return nil, err
	}
	c, err := s.chain(ctx, key)
	if err != nil {
		return nil, errors.Join(err, s.undo(ctx, key, ""))
	}
	mounts, dirs, err := s.over(ctx, c, mounts, wait)
	if err == nil {
		err = s.own(c, dirs)
	}
	if err != nil {
		return nil, errors.Join(err, s.undo(ctx, key, c.id))
	}
	return mounts, nil
}

// undo takes back a snapshot whose caller will get an error.
func (s *snapshotter) undo(ctx context.Context, key, id string) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.Snapshotter.Remove(ctx, key); err != nil {
		return fmt.Errorf("undo: %v", err) //nolint:errorlint // its class says nothing to the caller
	}
	if id != "" {
		s.releaseSoon(ctx, id)
		s.discard(id)
	}
	return nil
}

// over mounts what c stands on and puts it into overlay's mounts. A chain without remote layers stays as overlay has it.
func (s *snapshotter) over(ctx context.Context, c chain, mounts []mount.Mount, wait time.Duration) ([]mount.Mount, []string, error) {
	if !c.remote() {
		return mounts, nil, nil
	}
	bound, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	start := time.Now()
	dirs, err := s.hold(bound, c)
	if err == nil {
		mounts, err = rewrite(mounts, c.kind, dirs)
	}
	s.metrics.mount(time.Since(start), err)
	switch {
	case err == nil:
		return mounts, dirs, nil
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("mount layers below: %w", ctx.Err())
	case bound.Err() != nil:
		return nil, nil, fmt.Errorf("layers below are not mounted after %v, try again: %w: %v", wait, errdefs.ErrUnavailable, err) //nolint:errorlint // it hides the class
	}
	return nil, nil, fmt.Errorf("mount layers below: %w", sealed(err))
}

// own gives a new upper directory the owner of the root below it, as overlay does when that is an unpacked layer or an id mapping is given.
func (s *snapshotter) own(c chain, dirs []string) error {
	_, uids := c.labels[snapshots.LabelSnapshotUIDMapping]
	_, gids := c.labels[snapshots.LabelSnapshotGIDMapping]
	if c.kind != snapshots.KindActive || len(dirs) == 0 || !c.layers[0].remote || uids || gids {
		return nil
	}
	st, err := stat(dirs[0])
	if err != nil {
		return err
	}
	return os.Lchown(s.tree(c.id), int(st.Uid), int(st.Gid))
}

// rewrite puts dirs, top first, in the place of the layer directories of overlay's mounts.
func rewrite(mounts []mount.Mount, kind snapshots.Kind, dirs []string) ([]mount.Mount, error) {
	const lower = "lowerdir="
	if len(mounts) != 1 {
		return nil, fmt.Errorf("%d mounts of overlay, want 1: %w", len(mounts), errdefs.ErrInternal)
	}
	m := mounts[0]
	m.Options = slices.Clone(m.Options)
	i := slices.IndexFunc(m.Options, func(o string) bool { return strings.HasPrefix(o, lower) })
	switch {
	case m.Type == "bind" && len(dirs) == 1:
		m.Source = dirs[0]
	case m.Type != "overlay" || i < 0:
		return nil, fmt.Errorf("unknown mount %q of overlay: %w", m.Type, errdefs.ErrInternal)
	case kind == snapshots.KindView && len(dirs) == 1: // overlayfs refuses a single lower without an upper
		ids := slices.DeleteFunc(m.Options, func(o string) bool { return !strings.HasPrefix(o, "uidmap=") && !strings.HasPrefix(o, "gidmap=") })
		m = mount.Mount{Type: "bind", Source: dirs[0], Options: append(ids, "ro", "rbind")}
	default:
		m.Options[i] = lower + strings.Join(dirs, ":")
	}
	return []mount.Mount{m}, nil
}
