package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// drawing is the tree of a burst as text, with the bytes on its edges.
type drawing struct {
	w   io.Writer
	row burstRow
	err error
}

// draw draws each stripe: from the registry to the root, and from each VM to
// those below it. What VMs read beside the tree follows.
func draw(w io.Writer, row burstRow) error {
	d := &drawing{w: w, row: row}
	stripes := 0
	for _, vm := range row.PerVM {
		stripes = max(stripes, len(vm.Upstreams))
	}
	for stripe := range stripes {
		if stripes > 1 {
			d.print("blocks %d, %d, %d and so on:\n", stripe, stripe+stripes, stripe+2*stripes)
		}
		d.print("registry\n")
		d.below("", stripe, "", map[string]bool{})
		d.print("\n")
	}
	for _, vm := range row.PerVM {
		const noise = 1e5 // requests and keep-alives, in bytes
		for _, from := range row.PerVM {
			if n := vm.From[from.VM]; n > noise && !slices.Contains(vm.Upstreams, from.VM) {
				d.print("beside the tree: %s read %.1f MB from %s\n", vm.VM, float64(n)/mega, from.VM)
			}
		}
		if n := vm.RegistryBytes; n > noise && !slices.Contains(vm.Upstreams, "") {
			d.print("beside the tree: %s read %.1f MB from the registry\n", vm.VM, float64(n)/mega)
		}
	}
	return d.err
}

// below draws the VMs below one, or below the registry, that are not drawn.
func (d *drawing) below(up string, stripe int, indent string, drawn map[string]bool) {
	var vms []burstVM
	for _, vm := range d.row.PerVM {
		if stripe < len(vm.Upstreams) && vm.Upstreams[stripe] == up && !drawn[vm.VM] {
			vms = append(vms, vm)
		}
	}
	slices.SortFunc(vms, func(a, b burstVM) int { return strings.Compare(a.VM, b.VM) })
	for i, vm := range vms {
		branch, next := "├─", "│  "
		if i == len(vms)-1 {
			branch, next = "└─", "   "
		}
		drawn[vm.VM] = true
		bytes := vm.RegistryBytes
		if up != "" {
			bytes = vm.From[up]
		}
		all := ""
		if len(vm.Upstreams) > 1 && !slices.ContainsFunc(vm.Upstreams, func(o string) bool { return o != up }) {
			all = " of all blocks"
		}
		d.print("%s%s %.1f MB%s ─ %s, READY after %.1f s\n", indent, branch, float64(bytes)/mega, all, vm.VM, vm.Ready)
		d.below(vm.VM, stripe, indent+next, drawn)
	}
}

func (d *drawing) print(format string, args ...any) {
	if _, err := fmt.Fprintf(d.w, format, args...); d.err == nil {
		d.err = err
	}
}
