package index

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// placed is where an inode stands in the image.
type placed struct {
	*inode
	parent *placed  // of a directory; the root is its own
	dirs   []string // of a directory: its dirents
	at     int64    // of the inode; its number is at/slotSize
	head   int64    // bytes of the inode and its extended attributes
	size   int64    // bytes of content: dirents, link target or file
	layout int
	block  int64 // number of the first block of content that is not inline
	shift  int   // chunk size of a regular file
	chunks int
}

// layout places all inodes, each directory in front of what it holds, then the
// blocks of contents that do not fit behind their inode.
type layout struct {
	order []*placed
	nids  map[*inode]*placed
	end   int64 // of what is placed
}

func (t *Tree) layout() (*layout, error) {
	l := &layout{nids: map[*inode]*placed{}, end: align(deviceTable+int64(t.devices)*deviceSlotSize, BlockSize)}
	root := &placed{inode: t.root}
	root.parent = root
	if err := l.place(root); err != nil {
		return nil, err
	}
	if err := l.dir(root, ""); err != nil {
		return nil, err
	}
	l.end = align(l.end, BlockSize)
	for _, p := range l.order {
		if p.layout == layoutChunks || p.layout == layoutPlain && p.size == 0 {
			continue
		}
		n := blocks(p.size)
		if p.layout == layoutInline {
			n = p.size / BlockSize
		}
		if n > 0 {
			p.block = l.end / BlockSize
			l.end += n * BlockSize
		}
	}
	if l.end/BlockSize > math.MaxUint32 {
		return nil, tooLarge("index", l.end)
	}
	return l, nil
}

// dir places the files of directory d, then those of its directories.
func (l *layout) dir(d *placed, name string) error {
	var sub []*placed
	var names []string
	for _, base := range d.dirs {
		n, ok := d.names[base]
		if !ok || l.nids[n] != nil {
			continue // "." and "..", or a further name of a file
		}
		p := &placed{inode: n}
		if n.IsDir() {
			p.parent = d
			sub, names = append(sub, p), append(names, join(name, base))
		}
		if err := l.place(p); err != nil {
			return fmt.Errorf("%q: %w", join(name, base), err)
		}
	}
	for i, p := range sub {
		if err := l.dir(p, names[i]); err != nil {
			return err
		}
	}
	return nil
}

// place finds room for p.
func (l *layout) place(p *placed) error {
	p.head = inodeSize
	if x := p.diskXattrs(); len(x) > 0 {
		p.head += xattrHeader
		for _, x := range x {
			p.head += int64(xattrEntrySize(x))
		}
	}
	l.end = align(l.end, slotSize)
	if room := BlockSize - l.end%BlockSize; room < inodeSize {
		l.end += room // an inode in two blocks is legal, but costs every reader a copy
	}
	tail := int64(0)
	switch p.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		var err error
		if p.shift, p.chunks, err = p.chunkBits(); err != nil {
			return err
		}
		if p.size = p.Size; p.size > 0 {
			p.layout = layoutChunks
			tail = align(p.head, chunkSize) - p.head + int64(p.chunks)*chunkSize
		}
	case unix.S_IFDIR:
		p.dirs = p.dirNames()
		p.size = dirSize(p.dirs)
		tail = p.inline(&l.end, false)
	case unix.S_IFLNK:
		p.size = int64(len(p.Target))
		tail = p.inline(&l.end, true)
	}
	p.at = l.end
	l.end += p.head + tail
	l.order = append(l.order, p)
	l.nids[p.inode] = p
	return nil
}

// inline decides whether the end of p's content stands behind p, and moves at
// to the next place where it fits. It must not cross a block; a link's target
// must be in the block of its inode, or kernels read it the slow way.
func (p *placed) inline(at *int64, whole bool) int64 {
	tail := p.size % BlockSize
	for pad := int64(0); tail != 0 && pad < BlockSize; pad += slotSize {
		start := (*at + pad) % BlockSize
		inBlock := (start+p.head)%BlockSize+tail <= BlockSize
		if whole {
			inBlock = p.size == tail && start+p.head+tail <= BlockSize
		}
		if inBlock && start+inodeSize <= BlockSize {
			*at += pad
			p.layout = layoutInline
			return tail
		}
	}
	return 0
}
