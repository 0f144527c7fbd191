package snapshotter

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// layer is a committed snapshot.
type layer struct {
	id     string
	remote bool
	labels map[string]string
}

// chain is an active snapshot or a view, and what it stands on.
type chain struct {
	id     string
	kind   snapshots.Kind
	labels map[string]string
	layers []layer // top first
}

func (c chain) remote() bool {
	return slices.ContainsFunc(c.layers, func(l layer) bool { return l.remote })
}

func (s *snapshotter) chain(ctx context.Context, key string) (c chain, err error) {
	err = s.store.WithTransaction(ctx, false, func(ctx context.Context) error {
		id, info, _, err := storage.GetInfo(ctx, key)
		if err != nil {
			return err
		}
		c = chain{id: id, kind: info.Kind, labels: info.Labels}
		for info.Parent != "" {
			if id, info, _, err = storage.GetInfo(ctx, info.Parent); err != nil {
				return fmt.Errorf("chain of %q: %w", key, err)
			}
			c.layers = append(c.layers, layer{id: id, remote: isRemote(info), labels: info.Labels})
		}
		return nil
	})
	return c, err
}

// lowers mounts the runs of c from the bottom and returns the lower directories, top first.
func (s *snapshotter) lowers(ctx context.Context, c chain) (dirs []string, err error) {
	for i := len(c.layers); i > 0; {
		i--
		if l := c.layers[i]; !l.remote {
			if err := unpacked(s.tree(l.id)); err != nil {
				return nil, err
			}
			dirs = slices.Insert(dirs, 0, s.tree(l.id))
			continue
		}
		run := []map[string]string{c.layers[i].labels}
		for ; i > 0 && c.layers[i-1].remote; i-- {
			run = append(run, c.layers[i-1].labels)
		}
		dir, err := s.mounter.Mount(ctx, c.id, run, slices.Clone(dirs))
		if err != nil {
			return nil, err
		}
		if err := mounted(dir); err != nil {
			return nil, err
		}
		dirs = slices.Insert(dirs, 0, dir)
	}
	return dirs, nil
}

// mounted returns an error unless dir is the root of a mount and can be named in mount options.
func mounted(dir string) error {
	if err := plain(dir); err != nil {
		return err
	}
	st, err := stat(dir)
	if err != nil {
		return err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s is not the root of a mount: %w", dir, errdefs.ErrInternal)
	}
	return nil
}

// unpacked returns an error unless dir is a directory.
func unpacked(dir string) error {
	st, err := stat(dir)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s is no unpacked layer: %w", dir, errdefs.ErrDataLoss)
	}
	return nil
}

// stat asks the kernel only, not a server behind the file system.
func stat(path string) (st unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		return st, fmt.Errorf("stat %s: %w", path, err)
	}
	return st, nil
}
