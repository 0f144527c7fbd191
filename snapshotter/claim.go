package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// logPrepared is the log field by which tests and benchmarks of lazy snapshotters find layers that are not lazy: "true" or "false".
const logPrepared = "remote-snapshot-prepared"

var (
	errParallel = fmt.Errorf("layer has a parent that Prepare was not given (parallel unpacking): %w", errdefs.ErrFailedPrecondition)
	errSilent   = fmt.Errorf("the client says nothing of the layer that it unpacks (pull with `faasnet pull`, or with containerd 2.1 or later): %w", errdefs.ErrInvalidArgument)
	errOther    = fmt.Errorf("other content is already mounted for this chain: %w", errdefs.ErrFailedPrecondition)
)

// claim makes target a remote layer on parent. False means that the layer must be unpacked; nothing is left of the attempt then.
func (s *snapshotter) claim(ctx context.Context, key, parent, target string, labels map[string]string) bool {
	l := log.G(ctx).WithField("key", key).WithField("parent", parent).WithField("target", target)
	reused, err := s.tryClaim(ctx, key, parent, target, labels)
	if err != nil {
		s.unpacked(l, err)
		return false
	}
	how := "remote"
	if reused {
		how = "reused"
	}
	s.metrics.layer(how, "")
	l.WithField(logPrepared, "true").Info("layer is remote")
	return true
}

// unpacked says once why a layer is not lazy.
func (s *snapshotter) unpacked(l *log.Entry, err error) {
	why := reason(err)
	s.metrics.layer("unpacked", why)
	l = l.WithField(logPrepared, "false").WithField("reason", why).WithError(err)
	if errdefs.IsNotFound(err) {
		l.Info("layer is unpacked as usual")
	} else {
		l.Warn("layer is unpacked as usual")
	}
}

// isUnpack tells whether containerd, or a client of its, is going to unpack a layer into the snapshot of this key.
func isUnpack(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], snapshots.UnpackKeyPrefix+"-") // below a namespace and a number, or not
}

func (s *snapshotter) tryClaim(ctx context.Context, key, parent, target string, labels map[string]string) (reused bool, err error) {
	if parent == "" && labels[labelParentChain] != "" {
		return false, errParallel
	}
	done := s.claims.add(labels)
	defer done()
	wait, cancel := context.WithTimeout(ctx, s.claimWait)
	defer cancel()
	if _, err := within(wait, &s.calls, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.mounter.Claim(ctx, maps.Clone(labels))
	}); err != nil {
		return false, err
	}
	find := func(ctx context.Context) (err error) {
		_, reused, err = lookup(ctx, target, parent, labels)
		return err
	}
	if err := s.store.WithTransaction(ctx, false, find); err != nil || reused {
		return reused, err
	}
	return s.commitRemote(ctx, key, parent, target, labels)
}

// commitRemote creates and commits the snapshot in one transaction: an active one is never seen, and a failure leaves none.
func (s *snapshotter) commitRemote(ctx context.Context, key, parent, target string, labels map[string]string) (reused bool, err error) {
	err = s.store.WithTransaction(ctx, true, func(ctx context.Context) error {
		var name string
		if name, reused, err = lookup(ctx, target, parent, labels); err != nil || reused {
			return err
		}
		if _, err := storage.CreateSnapshot(ctx, snapshots.KindActive, key, parent); err != nil {
			return err
		}
		marked := snapshots.WithLabels(map[string]string{LabelRemote: remoteValue})
		_, err = storage.CommitActive(ctx, key, name, snapshots.Usage{}, snapshots.WithLabels(labels), marked)
		return err
	})
	return reused, err
}

// lookup returns the name that target has, or is to have, on parent. It is target itself, and target@<id of parent> where a snapshot of that
// name stands on another parent: namespaces that unpacked a lower layer each have a chain of their own. Needs a transaction.
func lookup(ctx context.Context, target, parent string, labels map[string]string) (name string, found bool, err error) {
	names, err := namesOf(ctx, target, parent)
	if err != nil {
		return "", false, err
	}
	for _, name := range names {
		_, info, _, err := storage.GetInfo(ctx, name)
		switch {
		case errdefs.IsNotFound(err):
			return name, false, nil
		case err != nil:
			return "", false, err
		case info.Kind != snapshots.KindCommitted || info.Parent != parent:
			continue
		case isRemote(info) && !sameLayer(info.Labels, labels):
			return "", false, errOther
		}
		return name, true, nil
	}
	return "", false, fmt.Errorf("both names of target %q are taken: %w", target, errdefs.ErrFailedPrecondition)
}

// namesOf lists the names that target may have on parent. Needs a transaction.
func namesOf(ctx context.Context, target, parent string) ([]string, error) {
	on := "0"
	if parent != "" {
		var err error
		if on, _, _, err = storage.GetInfo(ctx, parent); err != nil {
			return nil, fmt.Errorf("parent %q: %w", parent, err)
		}
	}
	return []string{target, target + "@" + on}, nil
}

// reason is the metric label for a layer that is not remote.
func reason(err error) string {
	switch {
	case errors.Is(err, errParallel):
		return "parallel_unpack"
	case errors.Is(err, errOther):
		return "other_content"
	case errdefs.IsNotFound(err):
		return "not_converted"
	case errdefs.IsInvalidArgument(err):
		return "invalid_labels"
	case errdefs.IsFailedPrecondition(err), errdefs.IsNotImplemented(err):
		return "host"
	case errdefs.IsUnavailable(err), errdefs.IsDeadlineExceeded(err), errdefs.IsCanceled(err):
		return "unavailable"
	}
	return "internal"
}

// claims are the labels of layers between Claim and their commit, which no listing of snapshots shows yet.
type claims struct {
	mu sync.Mutex
	m  map[int]map[string]string
	n  int
}

func (c *claims) add(labels map[string]string) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[int]map[string]string{}
	}
	c.n++
	n := c.n
	c.m[n] = maps.Clone(labels)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.m, n)
	}
}

func (c *claims) list() (all []map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, labels := range c.m {
		all = append(all, labels)
	}
	return all
}
