package snapshotter

import (
	"context"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
)

// Walk is overlay's, which reads all snapshots, but for one question: which committed snapshot is that of this target on this parent.
// containerd asks it after each remote layer, and would have all layers of the host read for each one that it pulls.
func (s *snapshotter) Walk(ctx context.Context, fn snapshots.WalkFunc, filters ...string) error {
	target, parent, ok := asksForTarget(filters)
	if !ok {
		return s.Snapshotter.Walk(ctx, fn, filters...)
	}
	var found snapshots.Info
	if err := s.store.WithTransaction(ctx, false, func(ctx context.Context) (err error) {
		found, err = committed(ctx, target, parent)
		return err
	}); err != nil {
		return s.Snapshotter.Walk(ctx, fn, filters...) // it may have a name that we do not give
	}
	return fn(ctx, found)
}

// asksForTarget takes containerd's question apart: labels."containerd.io/snapshot.ref"==TARGET,parent=="PARENT".
func asksForTarget(filters []string) (target, parent string, ok bool) {
	if len(filters) != 1 {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(filters[0], `labels."`+snapshots.LabelSnapshotRef+`"==`)
	if !ok {
		return "", "", false
	}
	if target, rest, ok = strings.Cut(rest, ",parent=="); !ok || strings.ContainsAny(target, `,"|/`) {
		return "", "", false
	}
	parent, err := strconv.Unquote(rest)
	return target, parent, err == nil
}

// committed returns the committed snapshot of target on parent, by one of the names that lookup gives. Needs a transaction.
func committed(ctx context.Context, target, parent string) (snapshots.Info, error) {
	names, err := namesOf(ctx, target, parent)
	if err != nil {
		return snapshots.Info{}, err
	}
	for _, name := range names {
		_, info, _, err := storage.GetInfo(ctx, name)
		if err == nil && info.Kind == snapshots.KindCommitted && info.Parent == parent && info.Labels[snapshots.LabelSnapshotRef] == target {
			return info, nil
		}
	}
	return snapshots.Info{}, errdefs.ErrNotFound
}
