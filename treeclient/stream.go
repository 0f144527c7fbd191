package treeclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// protocol is the version of tree.proto that we speak.
const protocol = 1

const (
	// welcomeTimeout bounds the time to the coordinator's first word.
	welcomeTimeout = 5 * time.Second
	// patient is for how many heartbeats a coordinator may be silent. It says
	// something every four.
	patient = 12
)

// MinHeartbeat is the shortest time that a coordinator may ask for.
const MinHeartbeat = 10 * time.Millisecond

// MaxHeartbeat is the longest one.
const MaxHeartbeat = time.Minute

var (
	errSilent   = fmt.Errorf("treeclient: the coordinator is silent: %w", errdefs.ErrUnavailable)
	errOverflow = fmt.Errorf("treeclient: the coordinator is too slow: %w", errdefs.ErrUnavailable)
)

// whyEnded prefers why we have ended a stream to what came of it.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func (l *link) hello(ctx context.Context) (*treepb.Hello, error) {
	o := &l.c.opts
	address, err := announced(ctx, o.Address, l.address)
	if err != nil {
		return nil, err
	}
	h := &treepb.Hello{Protocol: protocol, Vm: o.VM, Address: address}
	if o.Credential != nil {
		if h.Credential, err = o.Credential(); err != nil {
			return nil, fmt.Errorf("treeclient: join credential: %w", err)
		}
	}
	return h, nil
}

// open begins a stream with all the functions that this link keeps.
func (l *link) open(overflow context.CancelFunc) {
	c := l.c
	c.mu.Lock()
	mine := c.of(l.address)
	l.out, l.overflow = make(chan *treepb.FromVM, backlog+len(mine)), overflow
	l.opened = time.Now()
	c.mu.Unlock()
	for _, f := range mine {
		c.ask(f)
	}
}

func (l *link) shut() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.out, l.overdue = nil, false
}

// send says what there is to say, and a heartbeat in between.
func (l *link) send(ctx context.Context, stream treepb.Membership_AttendClient, every time.Duration) error {
	c := l.c
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var m *treepb.FromVM
		select {
		case <-ctx.Done():
			return stream.CloseSend()
		case m = <-l.out:
		case <-tick.C:
			load := c.opts.Load()
			for _, f := range c.awake(load) {
				c.ask(f)
			}
			m = &treepb.FromVM{Message: &treepb.FromVM_Heartbeat{Heartbeat: &treepb.Heartbeat{
				RelayedBytes: load.Relayed, ReadBytes: load.Read, Children: uint32(load.Children),
			}}}
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// receive takes what the coordinator says. heard is called for each message.
func (l *link) receive(stream treepb.Membership_AttendClient, heard func()) error {
	for {
		heard()
		msg, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := msg.Message.(type) {
		case *treepb.ToVM_Assignment:
			l.assigned(m.Assignment)
		case *treepb.ToVM_Refusal:
			l.refused(m.Refusal)
		case *treepb.ToVM_Redirect:
			l.redirected(m.Redirect)
		}
	}
}
