package index

import (
	"fmt"

	"github.com/containerd/errdefs"
)

// Lower is what a merged run of layers is stacked on.
type Lower interface {
	// Lstat says what is at path, which is relative and clean, or that
	// nothing is. It follows no link.
	Lstat(path string) (Attr, bool, error)
}

// Merge stacks layers, bottom first, as overlayfs stacks the directories that
// containerd unpacks them to. The devices of the layers are numbered through:
// layer i is device i when each has one.
//
// With a nil lower the layers are the whole image: no whiteout remains.
// Otherwise whiteouts and opaque marks stay where lower has something that
// they hide, and only there, since overlayfs lists a whiteout that hides
// nothing; directories without an entry of their own take the attributes that
// lower has for them.
func Merge(layers []*Tree, lower Lower) (*Tree, error) {
	m := &merger{lower: lower, implied: map[*inode]Attr{}, moved: map[*inode]*inode{}}
	for _, t := range layers {
		m.layers = append(m.layers, shifted{t, m.devices})
		m.devices += t.devices
	}
	if m.devices > maxDevices {
		return nil, fmt.Errorf("%d layers, the limit is %d: %w", m.devices, maxDevices, errdefs.ErrInvalidArgument)
	}
	for i := range m.layers {
		if err := m.imply(i, m.layers[i].root, m.layers[i].root, ""); err != nil {
			return nil, err
		}
	}
	stack := make([]located, 0, len(layers))
	for _, t := range m.layers {
		stack = append([]located{{t.root, t.shift}}, stack...)
	}
	root := newDir(0o755)
	if len(stack) > 0 {
		root.Attr = m.attr(stack[0].inode)
	}
	if err := m.fill(root, "", stack, lower == nil); err != nil {
		return nil, err
	}
	return &Tree{root: root, devices: m.devices}, nil
}

// shifted is a layer whose device 0 is device shift of the result.
type shifted struct {
	*Tree
	shift int
}

// located is an inode of such a layer.
type located struct {
	*inode
	shift int
}

type merger struct {
	layers  []shifted
	devices int
	lower   Lower
	implied map[*inode]Attr   // what implicit directories took from below
	moved   map[*inode]*inode // files whose ranges point at other devices in the result
}

// fill puts into out, the merged directory at dir, what stack, the directories
// that it is made of, top first, shows. cut says that nothing of lower shows
// through here.
func (m *merger) fill(out *inode, dir string, stack []located, cut bool) error {
	for i, layer := range stack {
		for name := range layer.names {
			if _, seen := out.names[name]; seen || i > 0 && hidden(stack[:i], name) {
				continue
			}
			n, err := m.file(join(dir, name), name, stack[i:], cut)
			if err != nil {
				return err
			}
			if n != nil {
				out.names[name] = n
			}
		}
	}
	return nil
}

// hidden says whether one of the directories has an entry called name: a
// whiteout, since it shows nothing.
func hidden(stack []located, name string) bool {
	for _, d := range stack {
		if _, ok := d.names[name]; ok {
			return true
		}
	}
	return false
}

// file merges what the directories of stack have under name; the first one
// has something. nil: nothing shows.
func (m *merger) file(p, name string, stack []located, cut bool) (*inode, error) {
	top := located{stack[0].names[name], stack[0].shift}
	switch {
	case top.IsWhiteout():
		if cut {
			return nil, nil
		}
		if _, ok, err := m.lower.Lstat(p); !ok || err != nil {
			return nil, err
		}
		return top.inode, nil
	case !top.IsDir():
		return m.move(top), nil
	}
	dirs := []located{top}
	blocked := top.opaque
	for i := 1; i < len(stack) && !blocked; i++ {
		n, ok := stack[i].names[name]
		if !ok {
			continue
		}
		if !n.IsDir() {
			blocked = true
			break
		}
		dirs = append(dirs, located{n, stack[i].shift})
		blocked = n.opaque
	}
	out := &inode{Attr: m.attr(top.inode), names: make(map[string]*inode, len(top.names))}
	if blocked && !cut {
		a, ok, err := m.lower.Lstat(p)
		if err != nil {
			return nil, err
		}
		out.opaque = ok && a.IsDir()
	}
	return out, m.fill(out, p, dirs, cut || blocked)
}

// move returns a file with its ranges on the result's devices. All names of a
// file get the same inode.
func (m *merger) move(n located) *inode {
	if n.shift == 0 || len(n.data) == 0 {
		return n.inode
	}
	if c, ok := m.moved[n.inode]; ok {
		return c
	}
	c := *n.inode
	c.data = make([]Range, len(n.data))
	for i, r := range n.data {
		r.Device += n.shift
		c.data[i] = r
	}
	if n.Nlink > 1 {
		m.moved[n.inode] = &c
	}
	return &c
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
