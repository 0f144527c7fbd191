package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// draw draws each stripe of a tree as text.
func draw(w io.Writer, t *treepb.Tree) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "function %s, tenant %s: %d VMs, %s, epoch %d\n", t.GetFunction().GetId(), t.GetFunction().GetTenant(), len(t.Nodes), t.Form, t.Epoch)
	for s := range int(t.Stripes) {
		below := map[string][]*treepb.Node{}
		for _, n := range t.Nodes {
			if s < len(n.Upstreams) {
				below[n.Upstreams[s]] = append(below[n.Upstreams[s]], n)
			}
		}
		if t.Stripes > 1 {
			fmt.Fprintf(out, "stripe %d\n", s)
		}
		fmt.Fprintln(out, "origin")
		branch(out, below, "", "", len(t.Nodes))
	}
	return out.Flush()
}

// branch draws what reads from vm. A tree is not deeper than it has VMs: what
// a coordinator sends is not taken for a tree without a bound.
func branch(out io.Writer, below map[string][]*treepb.Node, vm, indent string, depth int) {
	if depth == 0 {
		return
	}
	nodes := below[vm]
	for i, n := range nodes {
		knee, further := "├─ ", "│  "
		if i == len(nodes)-1 {
			knee, further = "└─ ", "   "
		}
		fmt.Fprintf(out, "%s%s%s\n", indent, knee, label(n))
		branch(out, below, n.GetPeer().GetVm(), indent+further, depth-1)
	}
}

func label(n *treepb.Node) string {
	return fmt.Sprintf("%s %s  joined %s with %d blocks, read %s, relayed %s to %d",
		n.GetPeer().GetVm(), n.GetPeer().GetAddress(), n.GetJoined().AsTime().UTC().Format(time.TimeOnly), n.Blocks,
		size(n.ReadBytes), size(n.RelayedBytes), n.Children)
}

// size writes a number of bytes with the largest unit that leaves a whole
// part.
func size(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v := float64(n)
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
