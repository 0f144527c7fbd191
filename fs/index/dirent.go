package index

import (
	"encoding/binary"
	"slices"
)

// dirNames returns the names of a directory's dirents in their order: byte
// order, "." and ".." among the rest.
func (n *inode) dirNames() []string {
	names := append(n.sortedNames(), ".", "..")
	slices.Sort(names)
	return names
}

// dirBlock returns how many of names fit into the next block, and the bytes
// that they take.
func dirBlock(names []string) (count, size int) {
	for _, name := range names {
		s := direntSize + len(name)
		if size+s > BlockSize {
			break
		}
		count, size = count+1, size+s
	}
	return count, size
}

// dirSize is the size of a directory with names: all blocks but the last one
// are filled up with zeros.
func dirSize(names []string) (size int64) {
	for len(names) > 0 {
		size = align(size, BlockSize)
		n, s := dirBlock(names)
		size += int64(s)
		names = names[n:]
	}
	return size
}

// putDir writes a directory's dirents to b, which has the directory's size.
func putDir(b []byte, names []string, entry func(name string) (nid uint64, mode uint32)) {
	for len(names) > 0 {
		count, _ := dirBlock(names)
		at := count * direntSize
		for i, name := range names[:count] {
			nid, mode := entry(name)
			d := b[i*direntSize:]
			binary.LittleEndian.PutUint64(d, nid)
			binary.LittleEndian.PutUint16(d[8:], uint16(at))
			d[10] = fileType(mode)
			at += copy(b[at:], name)
		}
		names = names[count:]
		b = b[min(BlockSize, len(b)):]
	}
}
