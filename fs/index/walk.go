package index

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// File is one file of a Tree under one of its names.
type File struct {
	Path     string // relative and clean; "." is the root
	Attr            // its Xattrs are the tree's: read only
	Opaque   bool   // a directory that hides what is below its layer
	Implicit bool   // a directory without an entry in the tar
	n        *inode
}

// Ranges returns where the bytes of a regular file are, sorted by Logical.
// What they leave out is zeros.
func (f File) Ranges() []Range { return slices.Clone(f.n.data) }

// Same says whether f and g are names of one file.
func (f File) Same(g File) bool { return f.n == g.n }

// ID is the same for all names of a file, and another one for each file of a
// tree.
func (f File) ID() any { return f.n }

func (n *inode) file(p string) File {
	if p == "" {
		p = "."
	}
	return File{Path: p, Attr: n.Attr, Opaque: n.opaque, Implicit: n.below == takesAll, n: n}
}

// Walk calls f for the root and then for everything under it, directories
// before what they hold, names in byte order. It stops at f's first error.
func (t *Tree) Walk(f func(File) error) error { return t.root.walk("", f) }

func (n *inode) walk(p string, f func(File) error) error {
	if err := f(n.file(p)); err != nil {
		return err
	}
	if !n.IsDir() {
		return nil
	}
	for _, name := range n.sortedNames() {
		if err := n.names[name].walk(join(p, name), f); err != nil {
			return err
		}
	}
	return nil
}

// Lookup finds the file called name, whose parents' links are followed inside
// the tree. The error matches errdefs.ErrNotFound when there is none.
func (t *Tree) Lookup(name string) (File, error) {
	dir, base := path.Split(path.Clean("/" + name))
	at, err := t.rootPath(dir)
	if err != nil {
		return File{}, err
	}
	at = path.Join(at, base)
	n, err := t.lstat(at)
	if err != nil {
		return File{}, err
	}
	if n == nil {
		return File{}, fmt.Errorf("%q: %w", name, errdefs.ErrNotFound)
	}
	return n.file(strings.TrimPrefix(at, "/")), nil
}

// Resolve is Lookup that follows name itself, too, when it is a link.
func (t *Tree) Resolve(name string) (File, error) {
	at, err := t.rootPath(path.Join("/", name))
	if err != nil {
		return File{}, err
	}
	return t.Lookup(at)
}

// List returns the names in the directory that f is, in byte order.
func (f File) List() []string { return f.n.sortedNames() }
