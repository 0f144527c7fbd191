package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// start is the start of the function on one VM of a burst.
type start struct {
	burst   *burst
	vm      *lab.VM
	ctx     context.Context //nolint:containedctx // of a goroutine that the start is; ends when the burst does
	stop    context.CancelFunc
	created <-chan time.Time
	release func() error

	ready     chan struct{} // closed when READY, or failed
	readyOnce sync.Once
	ended     chan struct{} // closed when all is over

	// Of run, till ended.
	begin                                 time.Time
	pulledAfter, mountedAfter, readyAfter time.Duration
	err                                   error
}

func (b *burst) newStart(ctx context.Context, vm *lab.VM) (*start, error) {
	s := &start{burst: b, vm: vm, ready: make(chan struct{}), ended: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(ctx)
	var err error
	s.created, s.release, err = vm.Containerd.Created(s.ctx)
	if err != nil {
		s.stop()
	}
	return s, err
}

// run waits for the begin and starts the function.
func (s *start) run(begin time.Time) {
	defer close(s.ended)
	defer s.isReady()
	defer func() { _ = s.release() }() // a connection of our own: nothing is lost with it
	s.begin = begin
	time.Sleep(time.Until(begin))
	how := s.burst.plan.system()
	ref := s.burst.ref(how.Tag)
	if !how.Unpacked {
		if s.err = s.vm.Containerd.Pull(s.ctx, how.Snapshotter, ref); s.err != nil {
			return
		}
		s.pulledAfter = time.Since(begin)
	}
	if s.burst.plan.Full {
		s.err = s.readAll(how.Snapshotter, ref)
		return
	}
	s.err = s.vm.Containerd.Run(s.ctx, how.Snapshotter, ref, func(line string) bool {
		if images.IsName(s.burst.image) && line != lab.Ready {
			return false // any line of another image will do
		}
		s.readyAfter = time.Since(begin)
		s.isReady()
		return true
	})
}

func (s *start) isReady() { s.readyOnce.Do(func() { close(s.ready) }) }

// readAll mounts the image and reads every file of it, four at a time.
func (s *start) readAll(snapshotter, ref string) (err error) {
	dir, err := s.vm.Containerd.Mount(s.ctx, snapshotter, ref)
	if err != nil {
		return err
	}
	s.mountedAfter = time.Since(s.begin)
	if _, err = s.vm.Run(s.ctx, "bash", "-o", "pipefail", "-c", `find "$0" -xdev -type f -print0 | xargs -0 -r -n 32 -P 4 cat >/dev/null`, dir); err != nil {
		return err
	}
	s.readyAfter = time.Since(s.begin)
	s.isReady()
	return errors.Join(s.vm.Containerd.Unmount(s.ctx, snapshotter, dir), ignoreMissing(os.Remove(dir)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// times fills in what the start itself says.
func (r *burstVM) times(s *start) {
	r.VM, r.Pull, r.Create, r.Ready = s.vm.Name(), s.pulledAfter.Seconds(), s.mountedAfter.Seconds(), s.readyAfter.Seconds()
	select {
	case at, made := <-s.created:
		if made {
			r.Create = at.Sub(s.begin).Seconds()
		}
	default:
	}
	if s.err != nil {
		r.Error = s.err.Error()
	}
}
