package etcdjournal

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containerd/log"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
)

var errWatchOver = errors.New("the watch is over")

// page is how many names of trees are read at a time.
const page = 500

// follow learns which coordinators live, until that fails.
func (r *run) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx) // ends the watch
	defer cancel()
	prefix := r.opts.Prefix + "coordinators/"
	all, err := r.get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	live := map[string]string{}
	for _, kv := range all.Kvs {
		live[string(kv.Key)] = string(kv.Value)
	}
	if err := r.turn(ctx, live); err != nil {
		return err
	}
	for changes := range r.etcd.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(all.Header.Revision+1)) {
		if err := changes.Err(); err != nil {
			return err
		}
		for _, e := range changes.Events {
			if e.Type == clientv3.EventTypeDelete {
				delete(live, string(e.Kv.Key))
				if string(e.Kv.Key) == r.memberKey() { // others have had our functions
					r.restored = false
				}
			} else {
				live[string(e.Kv.Key)] = string(e.Kv.Value)
			}
		}
		if err := r.turn(ctx, live); err != nil {
			return err
		}
	}
	return errWatchOver
}

func (r *run) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	res, err := r.etcd.Get(ctx, key, opts...)
	if err == nil {
		r.answered()
	}
	return res, err
}

// turn makes live the ring: functions of others are sent away, and those that
// are new here are read.
func (r *run) turn(ctx context.Context, live map[string]string) error {
	now, faces := ring{r.opts.Self}, map[string]string{}
	for _, says := range live {
		address, scheduler, _ := strings.Cut(says, "\n")
		faces[address] = scheduler
		if address != "" && !slices.Contains(now, address) {
			now = append(now, address)
		}
	}
	slices.Sort(now)
	r.faces.Store(&faces)
	before := r.ring.Swap(&now)
	if r.restored && slices.Equal(*before, now) {
		return nil
	}
	log.G(ctx).WithField("coordinators", now).Info("these coordinators live")
	r.trees.Rehome()
	isNew := func(k coordinator.Key) bool {
		return now.owner(k, r.opts.Self, nil) == r.opts.Self && (!r.restored || before.owner(k, r.opts.Self, nil) != r.opts.Self)
	}
	if err := r.restore(ctx, isNew); err != nil {
		r.ring.Store(before) // so that the next try reads them
		return err
	}
	r.restored = true
	return nil
}

// restore reads the trees that are.
func (r *run) restore(ctx context.Context, is func(coordinator.Key) bool) error {
	from, end := r.opts.Prefix+"trees/", clientv3.GetPrefixRangeEnd(r.opts.Prefix+"trees/")
	for {
		names, err := r.get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(page))
		if err != nil {
			return err
		}
		for _, kv := range names.Kvs {
			k, ok := r.keyOf(string(kv.Key))
			if !ok || !is(k) {
				continue
			}
			if err := r.restoreOne(ctx, k); err != nil {
				return err
			}
		}
		if !names.More {
			return nil
		}
		from = string(names.Kvs[len(names.Kvs)-1].Key) + "\x00"
	}
}

func (r *run) restoreOne(ctx context.Context, k coordinator.Key) error {
	res, err := r.get(ctx, r.treeKey(k))
	if err != nil || len(res.Kvs) == 0 {
		return err
	}
	t, err := decode(res.Kvs[0].Value)
	if err != nil {
		log.G(ctx).WithError(err).WithField("function", k.Function).Warn("the tree in etcd cannot be read, VMs will tell")
		return nil
	}
	r.metrics.restored.Inc()
	r.trees.Restore(k, t)
	return nil
}
