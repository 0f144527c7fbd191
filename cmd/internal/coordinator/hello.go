package coordinator

import (
	"fmt"
	"net"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// protocol is the version of tree.proto that we speak.
const protocol = 1

var errReplaced = fmt.Errorf("the VM has opened another stream: %w", errdefs.ErrAborted)

// greet opens the session that hello asks for. remote is where the VM is seen,
// end ends its stream.
func (c *Coordinator) greet(hello *treepb.Hello, remote string, end func(error)) (*session, error) {
	switch {
	case hello == nil || hello.Vm == "" || len(hello.Vm) > maxName:
		return nil, fmt.Errorf("the first message must be a hello with a VM name of 1 to %d bytes: %w", maxName, errdefs.ErrInvalidArgument)
	case hello.Protocol != protocol:
		return nil, fmt.Errorf("protocol %d, want %d: %w", hello.Protocol, protocol, errdefs.ErrFailedPrecondition)
	}
	tenant, err := c.tenant(hello)
	if err != nil {
		return nil, err
	}
	if err := c.checkAddress(hello.Address, remote); err != nil {
		return nil, err
	}
	now := time.Now()
	s := newSession(member{tenant, tree.VM(hello.Vm)}, hello.Address, end, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errStopping
	}
	if old := c.sessions[s.member]; old != nil {
		if old.address != s.address && now.Sub(old.heard) <= c.opts.Heartbeat*5/4 {
			return nil, fmt.Errorf("a VM named %q attends from %s: %w", s.vm, old.address, errdefs.ErrAlreadyExists)
		}
		c.drop(old, errReplaced)
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
	ip, seen := net.ParseIP(host), net.ParseIP(remote)
	switch {
	case err != nil || port == "" || port == "0" || ip == nil:
		return fmt.Errorf("announced address %q is not IP:port: %w", address, errdefs.ErrInvalidArgument)
	case ip.IsUnspecified() || ip.IsMulticast():
		return fmt.Errorf("announced address %q is not one to dial: %w", address, errdefs.ErrInvalidArgument)
	case ip.IsLoopback() && (!c.opts.AllowLoopback || seen != nil && !seen.IsLoopback()):
		return fmt.Errorf("announced address %q is a loopback address, the VM is seen at %q: %w", address, remote, errdefs.ErrInvalidArgument)
	}
	return nil
}
