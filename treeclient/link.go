package treeclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// protocol is the version of tree.proto that we speak.
const protocol = 1

// A lost link is tried again after a random time up to a limit that doubles:
// a coordinator that comes back has its VMs within 5 s, and not all at once.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// patience is how many failures in a row a link bears before its functions
// are brought to another coordinator, if there is one.
const patience = 2

// backlog bounds what a link may have to say. What does not fit is lost
// together with the link, and said anew on the next one.
const backlog = 256

// welcomeTimeout bounds the time to the coordinator's first word.
const welcomeTimeout = 5 * time.Second

// link is one stream to one coordinator, with all functions it keeps.
type link struct {
	c       *Client
	address string

	out      chan *treepb.FromVM // guarded by Client.mu: nil while there is no stream
	overflow context.CancelFunc
}

// say queues m if there is a stream; else the next stream begins with all
// that is true. Client.mu is held.
func (l *link) say(m *treepb.FromVM) {
	if l.out == nil {
		return
	}
	select {
	case l.out <- m:
	default:
		l.overflow()
	}
}

func (l *link) run(ctx context.Context) {
	failures := 0
	for {
		attended, err := l.attend(ctx)
		if ctx.Err() != nil {
			return
		}
		if attended {
			failures = 0
		}
		failures++
		if failures == 1 {
			log.G(ctx).WithError(err).WithField("coordinator", l.address).Warn("no coordinator, the last places hold")
		}
		if failures >= patience && l.giveUp() {
			return
		}
		limit := min(firstPause<<min(failures-1, 8), lastPause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(limit/2 + rand.N(limit/2)):
		}
	}
}

// giveUp brings the functions of this link to another coordinator, who keeps
// them or knows who does. It reports whether there is one.
func (l *link) giveUp() bool {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.homeAddress() == l.address {
		c.home = (c.home + 1) % len(c.opts.Coordinators)
	}
	if c.homeAddress() == l.address {
		return false
	}
	delete(c.links, l.address)
	c.link(c.homeAddress())
	for name, f := range c.functions {
		if f.link == l.address {
			c.ask(name, f, c.homeAddress())
		}
	}
	return true
}

// attend keeps one stream. attended says that the coordinator welcomed us.
func (l *link) attend(ctx context.Context) (attended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hello, err := l.hello()
	if err != nil {
		return false, err
	}
	conn, err := l.c.opts.Dial(l.address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	timer := time.AfterFunc(welcomeTimeout, cancel)
	defer timer.Stop()
	stream, err := treepb.NewMembershipClient(conn).Attend(ctx)
	if err != nil {
		return false, err
	}
	if err := stream.Send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: hello}}); err != nil {
		return false, errors.Join(err, recvError(stream))
	}
	first, err := stream.Recv()
	if err != nil {
		return false, err
	}
	welcome := first.GetWelcome()
	if welcome == nil || !timer.Stop() || welcome.Heartbeat.AsDuration() <= 0 {
		return false, fmt.Errorf("treeclient: %s did not welcome us: %w", l.address, errdefs.ErrUnavailable)
	}
	l.open(cancel, welcome)
	defer l.shut()
	sent := make(chan error, 1)
	go func() {
		defer cancel()
		sent <- l.send(ctx, stream, welcome.Heartbeat.AsDuration())
	}()
	err = l.receive(stream)
	cancel()
	return true, errors.Join(err, <-sent)
}

func recvError(s treepb.Membership_AttendClient) error {
	_, err := s.Recv()
	return err
}

func (l *link) hello() (*treepb.Hello, error) {
	o := &l.c.opts
	address, err := announced(o.Listen, l.address)
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
func (l *link) open(overflow context.CancelFunc, w *treepb.Welcome) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokenKey, c.tenant = w.TokenKey, w.Tenant
	l.out, l.overflow = make(chan *treepb.FromVM, backlog+len(c.functions)), overflow
	for name, f := range c.functions {
		if f.link == l.address {
			l.out <- joins(name, f, c.opts.Held(name))
		}
	}
}

func (l *link) shut() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.out = nil
}

// send says what there is to say, and a heartbeat in between.
func (l *link) send(ctx context.Context, stream treepb.Membership_AttendClient, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var m *treepb.FromVM
		select {
		case <-ctx.Done():
			return stream.CloseSend()
		case m = <-l.out:
		case <-tick.C:
			relayed, read, children := l.c.opts.Load()
			m = &treepb.FromVM{Message: &treepb.FromVM_Heartbeat{Heartbeat: &treepb.Heartbeat{
				RelayedBytes: relayed, ReadBytes: read, Children: uint32(children),
			}}}
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

func (l *link) receive(stream treepb.Membership_AttendClient) error {
	for {
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

// assigned takes a new place. An older one than we have is ignored: it was
// overtaken on its way, or comes from a coordinator that was replaced.
func (l *link) assigned(a *treepb.Assignment) {
	c := l.c
	c.mu.Lock()
	f := c.functions[a.Function]
	if f == nil || f.link != l.address || a.Epoch < f.place.Epoch || len(a.Stripes) == 0 {
		c.mu.Unlock()
		return
	}
	f.place, f.refused = placeOf(a), ""
	p := f.place
	c.mu.Unlock()
	c.opts.Changed(a.Function, p)
	f.once.Do(func() { close(f.settled) })
}

func (l *link) refused(r *treepb.Refusal) {
	c := l.c
	c.mu.Lock()
	f := c.functions[r.Function]
	if f == nil || f.link != l.address {
		c.mu.Unlock()
		return
	}
	f.place, f.refused = Place{}, r.Reason
	if !r.Retry {
		delete(c.functions, r.Function) // the next Join asks anew
	}
	c.mu.Unlock()
	c.opts.Changed(r.Function, Place{})
	f.once.Do(func() { close(f.settled) })
}

// redirected moves the function to the coordinator that keeps it.
func (l *link) redirected(r *treepb.Redirect) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.functions[r.Function]
	if f == nil || f.link != l.address || r.Address == "" || r.Address == l.address {
		return
	}
	c.ask(r.Function, f, r.Address)
}
