package treeclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// A lost coordinator is tried again after a random time up to a limit that
// doubles: one that comes back has its VMs within 5 s, and not all at once.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
	// steady is how long a stream must have lasted to count as a success.
	steady = 2 * time.Second
)

// patience is how many failures in a row the link to the coordinator that is
// asked first bears before another one is, if there is one. Functions of any
// other are brought home at the first failure.
const patience = 2

// backlog bounds what a link may have to say. What does not fit is lost
// together with the stream, and said anew on the next one.
const backlog = 256

// link is the stream to one coordinator, for all functions that it keeps,
// opened anew when it ends.
type link struct {
	c       *Client
	address string
	stop    context.CancelFunc

	// Guarded by Client.mu.
	failures int                 // in a row
	overdue  bool                // has not answered in time
	out      chan *treepb.FromVM // nil while there is no stream
	opened   time.Time           // when the coordinator welcomed us
	overflow context.CancelFunc
}

// link returns the link to a coordinator, started if it is new; nil when the
// client does not run. A new one has failed before failures times. c.mu is
// held.
func (c *Client) link(address string, failures int) *link {
	l := c.links[address]
	if l == nil && c.start != nil {
		l = &link{c: c, address: address, failures: failures}
		c.links[address] = l
		c.start(l)
	}
	return l
}

func (c *Client) homeAddress() string { return c.opts.Coordinators[c.home] }

// trim ends a link that nothing needs any more. c.mu is held.
func (c *Client) trim(l *link) {
	if c.links[l.address] == l && l.address != c.homeAddress() && len(c.of(l.address)) == 0 {
		delete(c.links, l.address)
		l.stop()
	}
}

// say queues m if there is a stream; else the next stream begins with all
// that is true. c.mu is held.
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.pause()):
		}
		began := time.Now()
		attended, err := l.attend(ctx)
		if ctx.Err() != nil || l.failed(ctx, attended && time.Since(began) >= steady, err) {
			return
		}
	}
}

// pause is the time before the next try. All coordinators are tried once
// before there is one.
func (l *link) pause() time.Duration {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	n := l.failures - patience*(len(l.c.opts.Coordinators)-1)
	if l.address != l.c.homeAddress() {
		n = l.failures
	}
	if l.failures > 0 && n <= 0 {
		return jitter(firstPause / 2)
	}
	if n <= 0 {
		return 0
	}
	return jitter(min(firstPause<<min(n-1, 8), lastPause))
}

// failed counts a failure. When it is one too many, the functions of this
// link are brought to another coordinator, who keeps them or knows who does,
// and it reports that this link is at its end.
func (l *link) failed(ctx context.Context, steady bool, err error) (end bool) {
	c := l.c
	c.mu.Lock()
	if steady {
		l.failures = 0
	}
	l.failures++
	known := len(c.away[l.address])
	c.away[l.address] = remember(c.away[l.address], undigited(err))
	news := len(c.away[l.address]) > known
	mine := c.of(l.address)
	if c.links[l.address] == l && (l.address != c.homeAddress() || l.failures >= patience) {
		end = c.leaveLink(l, mine)
	}
	c.mu.Unlock()
	if news {
		log.G(ctx).WithError(err).WithField("coordinator", l.address).Warn("no coordinator, the last places hold")
	}
	if end {
		for _, f := range mine {
			c.ask(f)
		}
	}
	return end
}

// undigited is an error without ports and times: one that is gone and one that
// refuses us are each worth a line, each try is not.
func undigited(err error) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, fmt.Sprint(err))
}

// leaveLink gives a link up if there is another one to go to. c.mu is held.
func (c *Client) leaveLink(l *link, mine []*function) bool {
	if c.homeAddress() == l.address {
		if len(c.opts.Coordinators) == 1 {
			return false
		}
		c.home = (c.home + 1) % len(c.opts.Coordinators)
	}
	delete(c.links, l.address)
	c.link(c.homeAddress(), l.failures)
	for _, f := range mine {
		f.unreachable = remember(f.unreachable, l.address)
		f.at = c.homeAddress()
	}
	return true
}

// attend keeps one stream. attended says that the coordinator welcomed us.
func (l *link) attend(ctx context.Context) (attended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hello, err := l.hello(ctx)
	if err != nil {
		return false, err
	}
	conn, err := l.c.opts.Dial(l.address)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	silence := time.AfterFunc(welcomeTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := treepb.NewMembershipClient(conn).Attend(ctx)
	if err != nil {
		return false, whyEnded(ctx, err)
	}
	err = stream.Send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: hello}})
	first, rerr := stream.Recv() // if the send has failed, this knows why
	if rerr != nil {
		return false, whyEnded(ctx, errors.Join(rerr, err))
	}
	welcome := first.GetWelcome()
	beat := welcome.GetHeartbeat().AsDuration()
	if beat < MinHeartbeat || beat > MaxHeartbeat {
		return false, fmt.Errorf("treeclient: %s did not welcome us: %w", l.address, errdefs.ErrUnavailable)
	}
	if l.welcomed(welcome) {
		log.G(ctx).WithField("coordinator", l.address).Info("the coordinator is back")
	}
	l.open(func() { cancel(errOverflow) })
	defer l.shut()
	sent := make(chan error, 1)
	go func() {
		err := l.send(ctx, stream, beat)
		cancel(nil)
		sent <- err
	}()
	err = l.receive(stream, func() { silence.Reset(patient * beat) })
	cancel(nil)
	return true, whyEnded(ctx, errors.Join(err, <-sent))
}
