package peer

import (
	"fmt"
	"maps"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/faasnet/faasnet/peer/identity"
)

// grant is a function that the other side may read.
type grant struct {
	function string
	expires  time.Time
}

func (g *grant) expired() bool { return time.Now().After(g.expires.Add(identity.Leeway)) }

// maxGrants bounds the functions that one VM may have open.
const maxGrants = 256

// serveOpen checks a token. Whoever shows a bad one gets nothing.
func (c *conn) serveOpen(h header, p []byte) error {
	m, err := parseOpen(p)
	if err != nil {
		return err
	}
	claims, err := c.r.verify(c.vm, m)
	if err != nil {
		c.mu.Lock()
		delete(c.grants, m.handle)
		c.mu.Unlock()
		c.refuse(h.tag, m.function, err)
		return nil
	}
	c.mu.Lock()
	if len(c.grants) >= maxGrants { // two VMs may be connected for longer than any function lives
		maps.DeleteFunc(c.grants, func(_ uint32, g *grant) bool { return g.expired() })
	}
	full := c.grants[m.handle] == nil && len(c.grants) >= maxGrants
	if !full {
		c.grants[m.handle] = &grant{m.function, claims.Expires}
	}
	first := !c.proven
	c.proven = true
	c.mu.Unlock()
	if full {
		c.refuse(h.tag, m.function, fmt.Errorf("%d functions are open: %w", maxGrants, errdefs.ErrResourceExhausted))
		return nil
	}
	if first {
		c.r.mu.Lock()
		c.r.trustLocked(c.guest)
		c.r.mu.Unlock()
		c.r.adopt(c)
	}
	c.out.say(frameOK, 0, h.tag, nil)
	return nil
}

// verify checks that a token lets vm read the function, here.
func (r *Relay) verify(vm string, m open) (identity.Claims, error) {
	tenant, keys := r.opts.Identity()
	claims, err := identity.Verifier{Keys: keys}.Verify(m.token, identity.Read)
	switch {
	case err != nil:
		return claims, err
	case claims.Tenant != tenant:
		return claims, fmt.Errorf("token of another tenant: %w", errdefs.ErrPermissionDenied)
	case claims.Function != m.function:
		return claims, fmt.Errorf("token of another function: %w", errdefs.ErrPermissionDenied)
	case claims.VM != vm:
		return claims, fmt.Errorf("token of another VM: %w", errdefs.ErrPermissionDenied)
	}
	return claims, nil
}

// granted returns the grant of a handle, refused when there is none that holds.
func (c *conn) granted(handle uint32) (*grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grants[handle]
	switch {
	case g == nil:
		return nil, fmt.Errorf("function is not open: %w", errdefs.ErrPermissionDenied)
	case g.expired():
		return nil, fmt.Errorf("token expired: %w", errdefs.ErrPermissionDenied)
	}
	return g, nil
}

// refuse answers that a VM may not have what it asks for.
func (c *conn) refuse(tag uint32, function string, err error) {
	c.note(function, err)
	reason := err.Error()
	c.out.say(frameRefused, 0, tag, text16(nil, reason[:min(len(reason), maxText)]))
}

// note counts and logs what a VM may not have.
func (c *conn) note(function string, err error) {
	c.r.metrics.refusals.Add(1)
	if c.r.refusals.Allow() {
		log.G(c.r.ctx).WithFields(log.Fields{
			"vm": c.vm, "remote": c.net.RemoteAddr(), "function": function,
		}).WithError(err).Warn("relay: request refused")
	}
}
