package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// kill is a fault in the middle of a burst: who, what and when.
type kill struct {
	who   string // root, inner or leaf
	fault lab.Fault
	at    time.Duration
}

func parseKill(text string) (kill, error) {
	if text == "none" {
		return kill{}, nil
	}
	who, rest, ok1 := strings.Cut(text, ":")
	fault, at, ok2 := strings.Cut(rest, "@")
	k := kill{who: who, fault: lab.Fault(fault)}
	var err error
	if k.at, err = time.ParseDuration(at); !ok1 || !ok2 || err != nil || k.at < 0 {
		return kill{}, usagef("fault %q: want WHO:HOW@WHEN, such as inner:kill@2s", text)
	}
	if !slices.Contains([]string{"root", "inner", "leaf"}, k.who) {
		return kill{}, usagef("fault %q: %q is none of root, inner, leaf", text, k.who)
	}
	if !slices.Contains(lab.Faults(), k.fault) {
		return kill{}, usagef("fault %q: %q is none of %q", text, k.fault, lab.Faults())
	}
	return k, nil
}

func (k kill) String() string { return fmt.Sprintf("%s:%s@%v", k.who, k.fault, k.at) }

// MarshalText writes it as the flag takes it.
func (k kill) MarshalText() ([]byte, error) { return []byte(k.String()), nil } //nolint:unparam // encoding.TextMarshaler

// UnmarshalText reads what MarshalText writes.
func (k *kill) UnmarshalText(p []byte) (err error) {
	*k, err = parseKill(string(p))
	return err
}

// strike waits for the moment, and for a VM in the place of the tree, deals it
// the fault and returns its name.
func (b *burst) strike(ctx context.Context, k kill, begin time.Time, starts []*start) (string, error) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, s := range starts {
			<-s.ready
		}
	}()
	const again = 20 * time.Millisecond
	for wait := time.Until(begin.Add(k.at)); ; wait = again {
		select {
		case <-over:
			return "", fmt.Errorf("%v: all VMs were READY or had failed before", k)
		case <-time.After(wait):
		}
		victim := b.vms[0].Name()
		if b.tree != nil {
			nodes, err := b.tree.Nodes(ctx)
			if err != nil {
				return "", fmt.Errorf("whom to strike: %w", err)
			}
			victim = pick(nodes, k.who)
		}
		for _, vm := range b.vms {
			if vm.Name() == victim {
				return victim, vm.Fail(k.fault)
			}
		}
	}
}

// pick returns the VM in the place, the one that fits best: the root of stripe
// 0; an inner VM with most downstream VMs that is root of nothing, or else of
// the last stripe; the leaf with fewest downstream VMs. With two stripes most
// VMs are inner in one of them.
func pick(nodes []lab.Node, who string) string {
	children := map[string]int{}
	for _, n := range nodes {
		for _, up := range n.Upstreams {
			children[up]++
		}
	}
	roots := func(n lab.Node) (count int) {
		for _, up := range n.Upstreams {
			if up == "" {
				count++
			}
		}
		return count
	}
	fits := func(n lab.Node) bool {
		first := len(n.Upstreams) > 0 && n.Upstreams[0] == ""
		switch who {
		case "root":
			return first
		case "inner":
			return !first && children[n.VM] > 0
		}
		return !first
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n lab.Node) bool { return !fits(n) })
	if len(nodes) == 0 {
		return ""
	}
	return slices.MinFunc(nodes, func(a, b lab.Node) int {
		few, more := a, b
		if who == "inner" {
			few, more = b, a
		}
		return cmp.Or(cmp.Compare(roots(a), roots(b)), cmp.Compare(children[few.VM], children[more.VM]), cmp.Compare(a.VM, b.VM))
	}).VM
}
