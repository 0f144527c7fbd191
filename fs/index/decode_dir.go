package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// tree decodes what the directory dir holds and checks that the directories
// form a tree.
func (d *decoder) tree(dir, parent *decoded, p string, depth int) error {
	if depth > maxPath/2 {
		return corrupt("%.80q: directories nest too deeply", p)
	}
	var last []byte
	dots, subdirs := 0, uint32(0)
	err := walkDir(dir.dir, func(name []byte, nid uint64, kind byte) error {
		if bytes.Compare(name, last) <= 0 {
			return corrupt("name %q after %q", name, last)
		}
		last = name
		switch string(name) {
		case ".", "..":
			want := dir
			if len(name) == 2 {
				want = parent
			}
			if dots++; nid != want.nid || kind != fileType(want.mode) {
				return corrupt("%q is inode %d", name, nid)
			}
			return nil
		}
		n, err := d.inode(nid)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if kind != fileType(n.mode) {
			return corrupt("%q has type %d and mode %#o", name, kind, n.mode)
		}
		if n.refs++; n.isDir() && (n.refs > 1 || n.nid == d.root()) {
			return corrupt("%q: directory %d has two names", name, nid)
		}
		if n.isDir() {
			subdirs++
		}
		if d.keep {
			dir.names[string(name)] = n.inode
		}
		return nil
	})
	if err == nil && dots != 2 {
		err = corrupt("no \".\" or no \"..\"")
	}
	if err == nil && dir.nlink != subdirs+2 {
		err = corrupt("nlink %d with %d directories", dir.nlink, subdirs)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", p, err)
	}
	if d.keep {
		dir.Nlink = 0
	}
	return d.subdirs(dir, p, depth)
}

// subdirs decodes the directories in dir, when dir itself is known to be good.
func (d *decoder) subdirs(dir *decoded, p string, depth int) error {
	return walkDir(dir.dir, func(name []byte, nid uint64, kind byte) error {
		if kind != fileTypeDir || string(name) == "." || string(name) == ".." {
			return nil
		}
		return d.tree(d.seen[nid], dir, join(p, string(name)), depth+1)
	})
}

func (d *decoder) root() uint64 { return uint64(binary.LittleEndian.Uint16(d.img[superOffset+14:])) }

// walkDir calls f for each dirent of b and checks the form of its blocks and
// of the names, which are parts of b.
func walkDir(b []byte, f func(name []byte, nid uint64, kind byte) error) error {
	le := binary.LittleEndian
	for len(b) > 0 {
		block := b[:min(BlockSize, len(b))]
		b = b[len(block):]
		if len(block) < direntSize {
			return corrupt("directory block of %d bytes", len(block))
		}
		first := int(le.Uint16(block[8:]))
		if first == 0 || first%direntSize != 0 || first >= len(block) {
			return corrupt("names start at %d of a directory block", first)
		}
		for i := 0; i < first; i += direntSize {
			from, to := int(le.Uint16(block[i+8:])), len(block)
			if i+direntSize < first {
				to = int(le.Uint16(block[i+direntSize+8:]))
			}
			if from < first || to <= from || to > len(block) || block[i+11] != 0 {
				return corrupt("name at %d..%d of a directory block", from, to)
			}
			name := block[from:to]
			if i+direntSize == first && len(b) > 0 {
				name = bytes.TrimRight(name, "\x00")
			}
			if len(name) == 0 || len(name) > maxName || bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0 {
				return corrupt("bad name %.300q", name)
			}
			if err := f(name, le.Uint64(block[i:]), block[i+10]); err != nil {
				return err
			}
		}
	}
	return nil
}
