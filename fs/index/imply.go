package index

import "strings"

// imply finds the attributes of the implicit directories under dir, the
// directory at p of layer i, as containerd does when it unpacks layer i on the
// layers below, which are done: from the nearest one that has something at p
// (links in its path resolved), if that is a directory. Whiteouts and opaque
// marks between do not count.
func (m *merger) imply(i int, dir *inode, p string) error {
	if dir.implicit {
		a, ok, err := m.below(i, p)
		if err != nil {
			return err
		}
		if ok {
			m.implied[dir] = inherit(a)
		}
	}
	for name, n := range dir.names {
		if !n.IsDir() {
			continue
		}
		if err := m.imply(i, n, join(p, name)); err != nil {
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
			return Attr{}, false, err
		}
		n, err := t.lstat(at)
		if err != nil {
			return Attr{}, false, err
		}
		if n != nil {
			return m.attr(n), n.IsDir(), nil
		}
	}
	if m.lower == nil {
		return Attr{}, false, nil
	}
	a, ok := m.lower.Lstat(p)
	return a, ok && a.IsDir(), nil
}

// attr returns the attributes that n has once it is stacked.
func (m *merger) attr(n *inode) Attr {
	if a, ok := m.implied[n]; ok {
		return a
	}
	return n.Attr
}

// inherit drops what a directory does not take from the one below it.
func inherit(a Attr) Attr {
	var keep []Xattr
	for _, x := range a.Xattrs {
		if !strings.HasPrefix(x.Name, "trusted.") {
			keep = append(keep, x)
		}
	}
	a.Xattrs = keep
	return a
}
