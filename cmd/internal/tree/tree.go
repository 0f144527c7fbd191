// Package tree is the function tree (FT) of FaaSNet, paper section 4: which
// VM reads from which. It is a pure data structure: no clock, no lock, no
// I/O. Three forms stand behind one interface; every change says which VMs
// got another upstream.
package tree

import (
	"errors"
	"fmt"
	"iter"

	"github.com/containerd/errdefs"
)

// VM names one machine. The empty VM is Origin.
type VM string

// Origin stands for the registry: the upstream of a root.
const Origin VM = ""

// Move says that VM reads stripe from New instead of Old since Epoch. Old is
// Origin for a VM that has just joined. A VM that has left has no Move.
type Move struct {
	VM     VM
	Stripe int
	Old    VM
	New    VM
	Epoch  uint64
}

// Tree is the tree of one function: one binary tree a stripe over the same
// VMs. After every call
//
//   - each stripe is acyclic with one root (none when no VM is interior to
//     it) and every other VM has one upstream, which is in the tree;
//   - no VM has more than two downstream VMs, over all stripes together.
//
// How deep a tree grows and how many VMs a change moves is what the forms
// differ in. A Tree is not safe for concurrent use.
type Tree interface {
	// Insert adds vm. It fails with errdefs.ErrAlreadyExists when vm is in
	// the tree and with errdefs.ErrInvalidArgument for Origin; a failed call
	// changes nothing. The moves of vm itself come first.
	Insert(vm VM) ([]Move, error)
	// Delete removes vm. It fails with errdefs.ErrNotFound when vm is not in
	// the tree; a failed call changes nothing.
	Delete(vm VM) ([]Move, error)

	// Has reports whether vm is in the tree.
	Has(vm VM) bool
	// Len is the number of VMs.
	Len() int
	// Stripes is the number of trees that share the blocks: block i over the
	// whole image travels in stripe i mod Stripes.
	Stripes() int
	// Epoch counts the changes since New.
	Epoch() uint64
	// Root returns the VM that reads stripe from the origin for the others,
	// Origin when the tree is empty.
	Root(stripe int) VM
	// Upstream returns whom vm reads stripe from; Origin for a root and for
	// a VM that is not in the tree.
	Upstream(vm VM, stripe int) VM
	// Downstream returns who reads stripe from vm, two at most.
	Downstream(vm VM, stripe int) []VM
	// All yields every VM once, in no promised order.
	All() iter.Seq[VM]
}

// Form names one way to keep a tree.
type Form string

// The forms.
const (
	Striped  Form = "striped"  // two interior-disjoint trees, the default
	Complete Form = "complete" // one complete binary tree, the paper's shape
	Rotate   Form = "rotate"   // one tree balanced by rotations, the paper's algorithm
)

// New returns an empty tree of the form. An unknown form is
// errdefs.ErrInvalidArgument.
func New(f Form) (Tree, error) {
	switch f {
	case Striped:
		return newStriped(), nil
	case Complete:
		return newComplete(), nil
	case Rotate:
		return newRotating(), nil
	}
	return nil, fmt.Errorf("tree form %q is none of %q, %q, %q: %w", f, Striped, Complete, Rotate, errdefs.ErrInvalidArgument)
}

// Ancestors returns the upstreams of vm in stripe, nearest first, the root
// last.
func Ancestors(t Tree, vm VM, stripe int) []VM {
	var up []VM
	for p := t.Upstream(vm, stripe); p != Origin; p = t.Upstream(p, stripe) {
		up = append(up, p)
	}
	return up
}

var errOrigin = errors.New("the empty name stands for the origin")

func checkInsert(t Tree, vm VM) error {
	switch {
	case vm == Origin:
		return fmt.Errorf("%w: %w", errOrigin, errdefs.ErrInvalidArgument)
	case t.Has(vm):
		return fmt.Errorf("VM %q is in the tree: %w", vm, errdefs.ErrAlreadyExists)
	}
	return nil
}

func checkDelete(t Tree, vm VM) error {
	if !t.Has(vm) {
		return fmt.Errorf("VM %q is not in the tree: %w", vm, errdefs.ErrNotFound)
	}
	return nil
}
