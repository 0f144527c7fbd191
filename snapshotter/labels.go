package snapshotter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
)

const (
	// LabelRemote marks a committed snapshot that is served by the Mounter. Only this package sets it: image annotations reach snapshots as
	// labels, and one with this name must not turn an unpacked layer into a remote one.
	LabelRemote = "containerd.io/snapshot/remote"
	remoteValue = "remote snapshot" // as stargz-snapshotter has it

	// labelParentChain is set by containerd 2.3 and later on each layer but the lowest, also where no parent is given: parallel unpacking.
	labelParentChain = "containerd.io/snapshot/parent-chain-id"

	inherited   = "containerd.io/snapshot" // prefix of all labels that containerd hands to a snapshotter
	layerPrefix = "containerd.io/snapshot/faasnet/"
)

func isRemote(info snapshots.Info) bool {
	return info.Kind == snapshots.KindCommitted && info.Labels[LabelRemote] != ""
}

// sameLayer tells whether a and b name the same bytes. Chain IDs alone do not: nothing has checked a remote layer against its diff ID, so a
// layer of one namespace must not stand for another blob of another namespace.
func sameLayer(a, b map[string]string) bool {
	identity := func(labels map[string]string) map[string]string {
		m := maps.Clone(labels)
		maps.DeleteFunc(m, func(k, _ string) bool { return !strings.HasPrefix(k, layerPrefix) })
		return m
	}
	return maps.Equal(identity(a), identity(b))
}

func labelsOf(opts []snapshots.Opt) (map[string]string, error) {
	var info snapshots.Info
	for _, o := range opts {
		if err := o(&info); err != nil {
			return nil, err
		}
	}
	return info.Labels, nil
}

// unmarked is an option after all others that takes LabelRemote away.
func unmarked(opts []snapshots.Opt) []snapshots.Opt {
	return append(slices.Clone(opts), func(info *snapshots.Info) error {
		delete(info.Labels, LabelRemote)
		return nil
	})
}

// Update changes labels as overlay's does, except that a remote layer keeps those that it is served by and no other snapshot gets LabelRemote.
func (s *snapshotter) Update(ctx context.Context, info snapshots.Info, fieldpaths ...string) (updated snapshots.Info, err error) {
	err = s.store.WithTransaction(ctx, true, func(ctx context.Context) error {
		_, old, _, err := storage.GetInfo(ctx, info.Name)
		if err != nil {
			return err
		}
		if updated, err = storage.UpdateInfo(ctx, info, fieldpaths...); err != nil {
			return err
		}
		labels := maps.Clone(updated.Labels)
		delete(labels, LabelRemote)
		if isRemote(old) {
			maps.DeleteFunc(old.Labels, func(k, _ string) bool { return !strings.HasPrefix(k, inherited) })
			if labels == nil {
				labels = map[string]string{}
			}
			maps.Copy(labels, old.Labels)
		}
		if maps.Equal(labels, updated.Labels) {
			return nil
		}
		updated, err = storage.UpdateInfo(ctx, snapshots.Info{Name: info.Name, Labels: labels}, "labels")
		return err
	})
	if err != nil {
		return snapshots.Info{}, fmt.Errorf("update snapshot %q: %w", info.Name, err)
	}
	return updated, nil
}

// id returns the id of the snapshot that key names.
func (s *snapshotter) id(ctx context.Context, key string) (id string, err error) {
	err = s.store.WithTransaction(ctx, false, func(ctx context.Context) error {
		id, _, _, err = storage.GetInfo(ctx, key)
		return err
	})
	return id, err
}

// sealed hides the classes that tell a client something about a snapshot when the error is about a mount: containerd would take
// ErrAlreadyExists for a remote layer and unpack a whole image again on ErrNotFound.
func sealed(err error) error {
	if errdefs.IsNotFound(err) || errdefs.IsAlreadyExists(err) || errdefs.IsCanceled(err) || errdefs.IsDeadlineExceeded(err) {
		return fmt.Errorf("%w: %v", errdefs.ErrUnavailable, err) //nolint:errorlint // it hides the class
	}
	return err
}
