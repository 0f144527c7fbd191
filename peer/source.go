package peer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/fs/block"
)

// source is a neighbour from which we read a function's blocks.
type source struct {
	n        *neighbour
	function string
	token    string
}

// ReadBlock is that of block.Source. The bytes are not verified.
func (s *source) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return s.StreamBlock(ctx, ref, slices.Grow(dst, ref.Size), func(int) {})
}

// StreamBlock is that of block.Streamer.
func (s *source) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	out := dst[: len(dst)+ref.Size : len(dst)+ref.Size]
	err := errSpare
	for range 2 { // the connection may turn out to be spare, once
		if !errors.Is(err, errSpare) {
			break
		}
		c, cerr := s.n.connect(ctx)
		if cerr != nil {
			return dst, cerr
		}
		err = c.get(ctx, c.open(s.function, s.token), ref, out[len(dst):], 0, arrived)
	}
	switch {
	case err == nil:
		s.n.won()
		return out, nil
	case errdefs.IsDataLoss(err): // a good verdict on less than the block
		s.n.r.corrupt(s.n.vm, s.function, err)
	case errors.Is(err, errMoved), errdefs.IsPermissionDenied(err):
		s.n.r.avoid(s.function, s.n.vm)
	}
	return dst, err
}

// avoid makes us not ask vm for the function for a while.
func (r *Relay) avoid(function, vm string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[function]; p != nil {
		p.avoid[vm] = time.Now().Add(avoidFor)
	}
}

// Late is that of fetch.Judge. Who loses again and again is slow.
func (r *Relay) Late(_ block.Ref, src block.Source) {
	s, ok := src.(*source)
	if !ok {
		return
	}
	if s.n.lost() {
		r.metrics.slow.Add(1)
		r.report(s.n.vm, Slow, time.Now())
	}
}

// Blame is that of fetch.Blamer.
func (r *Relay) Blame(_ block.Ref, src block.Source, err error) {
	if s, ok := src.(*source); ok {
		r.corrupt(s.n.vm, s.function, err)
	}
}

// corrupt is told of bad bytes under a good verdict. Their sender is left alone
// for a while, and its connection ended: more of them may be on their way.
func (r *Relay) corrupt(vm, function string, err error) {
	r.metrics.corrupt.Add(1)
	r.mu.Lock()
	n := r.neighbours[vm]
	r.mu.Unlock()
	if n == nil {
		return
	}
	n.mu.Lock()
	n.corrupt = time.Now().Add(corruptFor)
	c := n.conn
	n.mu.Unlock()
	log.G(r.ctx).WithError(err).WithFields(log.Fields{"vm": vm, "function": function}).Error("relay: bad bytes under a good verdict, the VM is left alone for a while")
	r.report(vm, Corrupt, time.Now())
	if c != nil {
		c.close(err)
	}
}

// report tells of a VM in all places where it is our upstream.
func (r *Relay) report(vm string, f Fault, since time.Time) {
	var out []Report
	r.mu.Lock()
	for function, p := range r.places {
		for i, s := range p.place.Stripes {
			if s.Upstream.VM != vm {
				continue
			}
			out = append(out, Report{Function: function, Stripe: i, VM: vm, Fault: f, Since: since})
		}
	}
	r.mu.Unlock()
	for _, rep := range out {
		r.opts.Report(rep)
	}
}
