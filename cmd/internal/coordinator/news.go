package coordinator

import (
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// news takes what a VM must be told. Assignments have no token yet. asked is when
// the places were asked for that are told for the first time.
func (c *Coordinator) news(s *session) (out []*treepb.ToVM, asked []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out = make([]*treepb.ToVM, 0, len(s.news))
	for f, m := range s.news {
		if at := s.seats[f]; m == nil && at != nil && at.placed() {
			m = &treepb.ToVM{Message: &treepb.ToVM_Assignment{Assignment: at.assignment()}}
			if !at.answered {
				at.answered = true
				asked = append(asked, at.joined)
			}
		}
		if m != nil {
			out = append(out, m)
		}
	}
	clear(s.news)
	return out, asked
}

// functionsOf returns the functions in which the VM has a seat.
func (c *Coordinator) functionsOf(s *session) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	functions := make(map[string]bool, len(s.seats))
	for f := range s.seats {
		functions[f] = true
	}
	return functions
}

// again makes the VM hear its places once more.
func (c *Coordinator) again(s *session, functions []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range functions {
		if at := s.seats[f]; at != nil && s.news[f] == nil {
			c.tell(at)
		}
	}
}

// assignment is the place of a seat that is placed.
func (at *seat) assignment() *treepb.Assignment {
	g, vm := at.grove, at.session.vm
	a := &treepb.Assignment{Function: g.key.Function, Epoch: g.epoch(), Inserted: at.inserted}
	for i := range g.tree.Stripes() {
		stripe := &treepb.Stripe{}
		for n, up := range tree.Ancestors(g.tree, vm, i) {
			if n == 0 {
				stripe.Upstream = g.peer(up)
				continue
			}
			stripe.Ancestors = append(stripe.Ancestors, g.peer(up))
		}
		for _, down := range g.tree.Downstream(vm, i) {
			stripe.Downstream = append(stripe.Downstream, g.peer(down))
		}
		a.Stripes = append(a.Stripes, stripe)
	}
	return a
}

// peer returns a VM of the tree as others know it.
func (g *grove) peer(vm tree.VM) *treepb.Peer { return g.seats[vm].session.peer }

// tokens signs for one VM. It belongs to the goroutine that speaks to it.
type tokens struct {
	c      *Coordinator
	member member
	cached map[string]token // by function
}

type token struct {
	text    string
	expires time.Time
}

// put adds a token that is good for at least half of its time.
func (t *tokens) put(a *treepb.Assignment, now time.Time) error {
	tok := t.cached[a.Function]
	if tok.expires.Sub(now) <= t.c.opts.TokenTTL/2 {
		tok.expires = now.Add(t.c.opts.TokenTTL).Truncate(time.Second) // as a token says it
		text, err := identity.Sign(t.c.opts.Key, identity.Claims{
			Use: identity.Read, Tenant: t.member.tenant, Function: a.Function, VM: string(t.member.vm), Expires: tok.expires,
		})
		if err != nil {
			return fmt.Errorf("token of %s: %w", t.member.vm, err)
		}
		tok.text = text
		t.cached[a.Function] = tok
	}
	a.Token, a.TokenExpires = tok.text, timestamppb.New(tok.expires)
	return nil
}

// keep forgets the tokens of all other functions: a VM that comes and goes must not
// pile them up.
func (t *tokens) keep(functions map[string]bool) {
	maps.DeleteFunc(t.cached, func(f string, _ token) bool { return !functions[f] })
}

// old returns the functions whose tokens need to be renewed and forgets the
// tokens.
func (t *tokens) old(now time.Time) (functions []string) {
	for f, tok := range t.cached {
		if tok.expires.Sub(now) <= t.c.opts.TokenTTL/2 {
			functions = append(functions, f)
			delete(t.cached, f)
		}
	}
	return functions
}
