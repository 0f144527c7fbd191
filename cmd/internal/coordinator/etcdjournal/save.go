package etcdjournal

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/klauspost/compress/zstd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

const (
	// format is the first byte of what is written: a treepb.Tree in a zstd
	// frame follows.
	format = 1
	// maxValue is below etcd's default limit of 1.5 MiB a request.
	maxValue = 1400 << 10
	// maxTree bounds what a frame may grow to.
	maxTree = 64 << 20
	// writers is how many trees are written at a time.
	writers = 8
)

// save writes what has changed, each tree once a Pace at most, until ctx ends;
// and then what is left.
func (r *run) save(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			r.writeAll(last)
			return
		case <-r.wake:
		}
		r.writeAll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(r.opts.Pace):
		}
	}
}

func (r *run) take() (keys []coordinator.Key, fence int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fence == 0 { // nothing may be written; they stay
		return nil, 0
	}
	for k := range r.dirty {
		keys = append(keys, k)
	}
	clear(r.dirty)
	return keys, r.fence
}

func (r *run) writeAll(ctx context.Context) {
	keys, fence := r.take()
	var g errgroup.Group
	g.SetLimit(writers)
	for _, k := range keys {
		if r.Owner(k, nil) != "" {
			continue
		}
		g.Go(func() error {
			if err := r.write(ctx, k, fence); err != nil {
				r.metrics.failures.Inc()
				r.Changed(k)
				return err
			}
			r.metrics.written.Inc()
			return nil
		})
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Debug("etcd: trees are written later")
	}
	if fence == 0 {
		r.retry(ctx)
	}
}

// retry has a look again at what could not be written.
func (r *run) retry(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dirty) > 0 && ctx.Err() == nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// write writes the tree of k as it is now, if the own key is as it was at
// fence: a coordinator that was stopped for longer than its lease must not
// write over the new owner's.
func (r *run) write(ctx context.Context, k coordinator.Key, fence int64) error {
	op := clientv3.OpDelete(r.treeKey(k))
	if t := r.trees.Tree(k); t != nil && len(t.Nodes) > 0 {
		value, err := encode(t)
		if err != nil {
			log.G(ctx).WithError(err).WithField("function", k.Function).Warn("etcd: the tree is not kept")
			return nil
		}
		op = clientv3.OpPut(r.treeKey(k), string(value))
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	res, err := r.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(r.memberKey()), "=", fence)).Then(op).Commit()
	if err != nil {
		return err
	}
	r.answered()
	if !res.Succeeded {
		select {
		case r.lost <- struct{}{}:
		default:
		}
		return errKeyLost
	}
	return nil
}

func encode(t *treepb.Tree) ([]byte, error) {
	p, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return nil, err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	out := w.EncodeAll(p, []byte{format})
	if len(out) > maxValue {
		return nil, fmt.Errorf("a tree of %d VMs takes %d bytes: %w", len(t.Nodes), len(out), errdefs.ErrOutOfRange)
	}
	return out, nil
}

func decode(p []byte) (*treepb.Tree, error) {
	if len(p) == 0 || p[0] != format {
		return nil, fmt.Errorf("unknown format: %w", errdefs.ErrDataLoss)
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxTree))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := r.DecodeAll(p[1:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrDataLoss)
	}
	t := &treepb.Tree{}
	if err := proto.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrDataLoss)
	}
	return t, nil
}
