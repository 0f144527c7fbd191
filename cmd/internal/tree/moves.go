package tree

// edge is the place of one VM in one stripe.
type edge struct {
	vm     VM
	stripe int
}

// moves gathers the upstreams that a change touches and reports those that
// differ in the end. A change touches a handful of edges, so a slice does.
type moves struct {
	edges []edge
	old   []VM
}

// touch notes the upstream that vm had before the change; later calls for the
// same edge do nothing.
func (m *moves) touch(vm VM, stripe int, old VM) {
	e := edge{vm, stripe}
	for _, have := range m.edges {
		if have == e {
			return
		}
	}
	m.edges = append(m.edges, e)
	m.old = append(m.old, old)
}

// done compares with t as it is now. gone is the VM that has left, Origin if
// none has.
func (m *moves) done(t Tree, gone VM) []Move {
	out := make([]Move, 0, len(m.edges))
	for i, e := range m.edges {
		now := t.Upstream(e.vm, e.stripe)
		if e.vm == gone || now == m.old[i] {
			continue
		}
		out = append(out, Move{VM: e.vm, Stripe: e.stripe, Old: m.old[i], New: now, Epoch: t.Epoch()})
	}
	return out
}
