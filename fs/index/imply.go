package index

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// imply finds the attributes of the implicit directories under dir, the
// directory at p of layer i, as containerd does when it unpacks layer i on the
// layers below, which are done: from the nearest one that has something at p
// (links in its path resolved), if that is a directory. Whiteouts and opaque
// marks between do not count. Where the path leads through something that is
// not a directory containerd fails; here it ends the search.
func (m *merger) imply(i int, dir, parent *inode, p string) error {
	if dir.below != takesNothing {
		a, ok, err := m.below(i, p)
		if err != nil {
			return err
		}
		if ok && a.IsDir() {
			m.implied[dir] = inherit(dir, a)
		} else if up := m.attr(parent); dir.below == takesAll && parent.below == takesAll && up.Mode&unix.S_ISGID != 0 {
			a := dir.Attr // made in a directory that has its set-group-ID bit from below
			a.GID = up.GID
			m.implied[dir] = a
		}
	}
	for name, n := range dir.names {
		if !n.IsDir() {
			continue
		}
		if err := m.imply(i, n, dir, join(p, name)); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) below(i int, p string) (Attr, bool, error) {
	for j := i - 1; j >= 0; j-- {
		t := m.layers[j]
		at, err := t.rootPath(p)
		if err != nil {
			return Attr{}, false, nil //nolint:nilerr // see imply
		}
		n, err := t.lstat(at)
		if err != nil {
			return Attr{}, false, nil //nolint:nilerr // see imply
		}
		if n != nil {
			return m.attr(n), true, nil
		}
	}
	if m.lower == nil {
		return Attr{}, false, nil
	}
	return m.lower.Lstat(p)
}

// attr returns the attributes that n has once it is stacked.
func (m *merger) attr(n *inode) Attr {
	if a, ok := m.implied[n]; ok {
		return a
	}
	return n.Attr
}

// inherit returns the attributes of dir, a directory that takes what it does
// not have itself from a.
func inherit(dir *inode, a Attr) Attr {
	kept := slices.DeleteFunc(slices.Clone(a.Xattrs), func(x Xattr) bool { return strings.HasPrefix(x.Name, "trusted.") })
	if dir.below == takesXattrs {
		a = dir.Attr
	}
	a.Xattrs = kept
	for _, x := range dir.Xattrs {
		a.setXattr(x.Name, x.Value)
	}
	chmodACL(&a)
	return a
}
