package coordinator

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// assignment is the place of s in g.
func (c *Coordinator) assignment(g *grove, s *session, at *seat, now time.Time) (*treepb.Assignment, error) {
	if err := c.renew(g.key, s, at, now); err != nil {
		return nil, err
	}
	a := &treepb.Assignment{
		Function:     g.key.Function,
		Epoch:        g.epoch(),
		Token:        at.token,
		TokenExpires: timestamppb.New(at.expires),
	}
	for i := range g.tree.Stripes() {
		stripe := &treepb.Stripe{Upstream: c.peerOf(g.key.Tenant, g.tree.Upstream(s.vm, i))}
		up := tree.Ancestors(g.tree, s.vm, i)
		for _, vm := range up[min(1, len(up)):] {
			if p := c.peerOf(g.key.Tenant, vm); p != nil {
				stripe.Ancestors = append(stripe.Ancestors, p)
			}
		}
		for _, vm := range g.tree.Downstream(s.vm, i) {
			if p := c.peerOf(g.key.Tenant, vm); p != nil {
				stripe.Downstream = append(stripe.Downstream, p)
			}
		}
		a.Stripes = append(a.Stripes, stripe)
	}
	return a, nil
}

// renew makes a new token when half of the old one's time is over.
func (c *Coordinator) renew(k Key, s *session, at *seat, now time.Time) error {
	if at.expires.Sub(now) > c.opts.TokenTTL/2 {
		return nil
	}
	expires := now.Add(c.opts.TokenTTL)
	token, err := identity.Sign(c.opts.Key, identity.Claims{
		Use: identity.Read, Tenant: k.Tenant, Function: k.Function, VM: string(s.vm), Expires: expires,
	})
	if err != nil {
		return fmt.Errorf("coordinator: token of %s: %w", s.vm, err)
	}
	at.token, at.expires = token, expires
	return nil
}
