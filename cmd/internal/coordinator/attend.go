package coordinator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/log"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

const (
	// helloTimeout bounds how long a stream may keep us waiting for its first
	// message.
	helloTimeout = 5 * time.Second
	// pulses is how many heartbeats a VM waits for a sign of life at most.
	pulses = 4
	// A VM may say this much a second, and heartbeats four times as often as they are
	// wanted; then it waits.
	messageRate, messageBurst = 100, 200
)

var (
	errNoHello = fmt.Errorf("no hello within %v: %w", helloTimeout, errdefs.ErrUnauthenticated)
	errLeft    = errors.New("the VM has ended the stream")
)

type membership struct {
	treepb.UnimplementedMembershipServer
	c *Coordinator
}

// Attend serves one VM. It ends with the stream, and so do the VM's places.
func (m membership) Attend(stream treepb.Membership_AttendServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	greeted := make(chan *session, 1)
	go func() { end(m.c.listen(ctx, stream, greeted, end)) }() // ends with the stream
	late := time.NewTimer(helloTimeout)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-late.C:
		return errgrpc.ToGRPC(errNoHello)
	case s := <-greeted:
		return m.c.speak(ctx, stream, s)
	}
}

// ended returns what the VM is told when its stream ends.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, errLeft) {
		return errgrpc.ToGRPC(err)
	}
	return nil
}

// listen takes what the VM says until the stream ends, and then takes it out
// of its trees.
func (c *Coordinator) listen(ctx context.Context, stream treepb.Membership_AttendServer, greeted chan<- *session, end context.CancelCauseFunc) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s, err := c.greet(first.GetHello(), remoteHost(ctx), end)
	if err != nil {
		if c.refused.Allow() {
			log.G(ctx).WithError(err).WithField("remote", remoteHost(ctx)).Warn("VM refused")
		}
		return err
	}
	defer c.lost(s)
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("vm", s.vm).WithField("tenant", s.tenant))
	log.G(ctx).WithField("address", s.address).Debug("VM attends")
	greeted <- s
	pace := rate.NewLimiter(messageRate, messageBurst)
	beats := rate.NewLimiter(rate.Every(c.opts.Heartbeat/4), messageBurst) // many at once if it was us who did not listen
	for {
		msg, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errLeft
		case err != nil:
			return err
		}
		limit := pace
		if msg.GetHeartbeat() != nil {
			limit = beats
		}
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		c.hear(ctx, s, msg)
	}
}

func (c *Coordinator) lost(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s, errLeft)
}

// hear takes one message of a VM that has said hello.
func (c *Coordinator) hear(ctx context.Context, s *session, msg *treepb.FromVM) {
	now := time.Now()
	c.mu.Lock()
	if c.closed || c.sessions[s.member] != s {
		c.mu.Unlock()
		return
	}
	s.heard = now
	var logged string
	var gone bool
	switch m := msg.Message.(type) {
	case *treepb.FromVM_Join:
		c.join(s, m.Join, now)
	case *treepb.FromVM_Leave:
		if at := s.seats[m.Leave.Function]; at != nil {
			c.free(at, c.tellLater)
		}
	case *treepb.FromVM_Heartbeat:
		if m.Heartbeat.ReadBytes != s.load.ReadBytes || m.Heartbeat.RelayedBytes != s.load.RelayedBytes {
			s.busy = now
		}
		s.load = m.Heartbeat
	case *treepb.FromVM_Report:
		logged = c.report(s, m.Report, now)
	case *treepb.FromVM_Quiet:
		gone = c.doubt(s, m.Quiet, now)
	}
	c.mu.Unlock()
	if gone {
		log.G(ctx).WithField("function", msg.GetQuiet().Function).WithField("neighbour", msg.GetQuiet().Vm).Warn(unheard)
	}
	if logged != "" {
		logReport(ctx, msg.GetReport(), logged)
	}
}

// speak tells the VM what there is to tell until the stream ends.
func (c *Coordinator) speak(ctx context.Context, stream treepb.Membership_AttendServer, s *session) error {
	err := stream.Send(&treepb.ToVM{Message: &treepb.ToVM_Welcome{Welcome: &treepb.Welcome{
		Heartbeat:    durationpb.New(c.opts.Heartbeat),
		TokenKey:     c.opts.Key.Public().(ed25519.PublicKey),
		MaxFunctions: uint32(c.opts.MaxFunctions),
		Tenant:       s.tenant,
		Address:      remoteHost(ctx),
	}}})
	if err != nil {
		return err
	}
	tokens := tokens{c: c, member: s.member, cached: map[string]token{}}
	pulse := time.NewTicker(pulses * c.opts.Heartbeat)
	defer pulse.Stop()
	for {
		var out []*treepb.ToVM
		var asked []time.Time
		select {
		case <-ctx.Done():
			return ended(ctx)
		case <-s.wake:
			out, asked = c.news(s)
		case <-pulse.C:
			out = []*treepb.ToVM{{}}
			tokens.keep(c.functionsOf(s))
			c.again(s, tokens.old(time.Now()))
		}
		for _, msg := range out {
			if a := msg.GetAssignment(); a != nil {
				if err := tokens.put(a, time.Now()); err != nil {
					return errgrpc.ToGRPC(err)
				}
			}
			if err := stream.Send(msg); err != nil {
				return err
			}
		}
		for _, t := range asked {
			c.metrics.answer.Observe(time.Since(t).Seconds())
		}
	}
}

func remoteHost(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return ""
	}
	return host
}
