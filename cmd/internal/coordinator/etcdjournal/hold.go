package etcdjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	errLeaseOver = errors.New("the lease is over")
	errKeyLost   = errors.New("another coordinator has taken the own address, or the lease ended unnoticed")
)

// hold keeps the own key alive until that fails.
func (r *run) hold(ctx context.Context) error {
	lease, err := r.join(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // what is left when we stop may be written
			r.setFence(0)
		}
	}()
	alive, err := r.etcd.KeepAlive(ctx, lease)
	if err != nil {
		return err
	}
	for {
		select {
		case <-r.lost:
			return errKeyLost
		case _, ok := <-alive:
			if !ok {
				return errLeaseOver
			}
			r.answered()
		}
	}
}

// join writes the own key with a new lease. A key that an earlier run left is
// taken over.
func (r *run) join(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	lease, err := r.etcd.Grant(ctx, int64((r.opts.TTL+time.Second-1)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("grant: %w", err)
	}
	put, err := r.etcd.Put(ctx, r.memberKey(), r.opts.Self+"\n"+r.opts.Scheduler, clientv3.WithLease(lease.ID))
	if err != nil {
		return 0, fmt.Errorf("put: %w", err)
	}
	r.answered()
	r.setFence(put.Header.Revision)
	return lease.ID, nil
}

func (r *run) setFence(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence = revision
}

// leave gives the own key up, if it is still the own one.
func (r *run) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if _, err := r.etcd.Delete(ctx, r.memberKey()); err != nil {
		log.G(ctx).WithError(err).Warn("etcd: the other coordinators learn of our end when the lease is over")
	}
}
