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
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// protocol is the version of tree.proto that we speak.
const protocol = 1

// Why a stream ends.
var (
	errReplaced = fmt.Errorf("the VM has opened another stream: %w", errdefs.ErrAborted)
	errSilent   = fmt.Errorf("no heartbeat: %w", errdefs.ErrUnavailable)
)

type membership struct {
	treepb.UnimplementedMembershipServer
	c *Coordinator
}

// Attend serves one VM. It ends with the stream, and so do the VM's places.
func (m membership) Attend(stream treepb.Membership_AttendServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	s, err := m.c.greet(ctx, stream, end)
	if err != nil {
		return errgrpc.ToGRPC(err)
	}
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("vm", s.vm).WithField("tenant", s.tenant))
	log.G(ctx).WithField("address", s.address).Debug("VM attends")
	defer m.c.lost(s)
	received := make(chan error, 1)
	go func() { received <- m.c.listen(ctx, stream, s) }()
	for {
		select {
		case <-ctx.Done(): // the goroutine ends with the stream
			return errgrpc.ToGRPC(context.Cause(ctx))
		case err := <-received:
			return errgrpc.ToGRPC(err)
		case <-s.outbox.wake:
			m.c.mu.Lock()
			out := s.outbox.take()
			m.c.mu.Unlock()
			for _, msg := range out {
				if err := stream.Send(msg); err != nil {
					return err
				}
			}
		}
	}
}

// greet takes the VM's Hello and opens its session.
func (c *Coordinator) greet(ctx context.Context, stream treepb.Membership_AttendServer, end context.CancelCauseFunc) (*session, error) {
	msg, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	hello := msg.GetHello()
	if hello == nil || hello.Vm == "" {
		return nil, fmt.Errorf("the first message must be a hello with a VM name: %w", errdefs.ErrInvalidArgument)
	}
	if hello.Protocol != protocol {
		return nil, fmt.Errorf("protocol %d, want %d: %w", hello.Protocol, protocol, errdefs.ErrFailedPrecondition)
	}
	tenant, err := c.tenant(hello)
	if err != nil {
		log.G(ctx).WithError(err).WithField("vm", hello.Vm).Warn("VM refused")
		return nil, err
	}
	remote := remoteHost(ctx)
	if err := c.checkAddress(hello.Address, remote); err != nil {
		log.G(ctx).WithError(err).WithField("vm", hello.Vm).Warn("VM refused")
		return nil, err
	}
	now := time.Now()
	s := &session{
		member:    member{tenant, tree.VM(hello.Vm)},
		address:   hello.Address,
		end:       end,
		functions: map[string]bool{},
		heard:     now,
		busy:      now,
		outbox:    newOutbox(),
	}
	err = stream.Send(&treepb.ToVM{Message: &treepb.ToVM_Welcome{Welcome: &treepb.Welcome{
		Heartbeat:    durationpb.New(c.opts.Heartbeat),
		TokenKey:     c.opts.Key.Public().(ed25519.PublicKey),
		MaxFunctions: uint32(c.opts.MaxFunctions),
		Tenant:       tenant,
		Address:      remote,
	}}})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.sessions[s.member]; old != nil {
		old.end(errReplaced)
		c.dropLocked(old, now)
	}
	c.sessions[s.member] = s
	return s, nil
}

// tenant says whose the VM is.
func (c *Coordinator) tenant(h *treepb.Hello) (string, error) {
	if len(c.opts.Credentials.Keys) == 0 {
		return DefaultTenant, nil
	}
	claims, err := c.opts.Credentials.Verify(h.Credential, identity.Join)
	if err != nil {
		return "", fmt.Errorf("join credential of %q: %w", h.Vm, err)
	}
	if claims.VM != "" && claims.VM != h.Vm {
		return "", fmt.Errorf("join credential is for VM %q, not %q: %w", claims.VM, h.Vm, errdefs.ErrPermissionDenied)
	}
	return claims.Tenant, nil
}

// checkAddress refuses what no other VM could dial (PN-12).
func (c *Coordinator) checkAddress(address, remote string) error {
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	switch {
	case err != nil || port == "" || port == "0" || ip == nil:
		return fmt.Errorf("announced address %q is not IP:port: %w", address, errdefs.ErrInvalidArgument)
	case ip.IsUnspecified() || ip.IsMulticast():
		return fmt.Errorf("announced address %q is not one to dial: %w", address, errdefs.ErrInvalidArgument)
	case ip.IsLoopback() && !c.opts.AllowLoopback:
		return fmt.Errorf("announced address %q is a loopback address, the VM is seen at %q: %w", address, remote, errdefs.ErrInvalidArgument)
	}
	return nil
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

// listen takes what the VM says until the stream ends.
func (c *Coordinator) listen(ctx context.Context, stream treepb.Membership_AttendServer, s *session) error {
	for {
		msg, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		now := time.Now()
		c.mu.Lock()
		s.heard = now
		switch m := msg.Message.(type) {
		case *treepb.FromVM_Join:
			c.join(s, m.Join, now)
		case *treepb.FromVM_Leave:
			c.leave(s, m.Leave.Function, now)
		case *treepb.FromVM_Heartbeat:
			if n := m.Heartbeat.ReadBytes + m.Heartbeat.RelayedBytes; n != s.bytes {
				s.bytes, s.busy = n, now
			}
		case *treepb.FromVM_Report:
			c.report(ctx, s, m.Report, now)
		}
		c.mu.Unlock()
	}
}

// lost ends the session.
func (c *Coordinator) lost(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(s, time.Now())
}
