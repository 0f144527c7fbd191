// Package index is the file tree of a layer or of a whole image without the
// files' bytes: it is built from a tar stream as containerd would unpack it,
// merged as overlayfs would stack it, and written as an EROFS image whose
// files point at byte ranges of the tar streams.
//
// A Tree never changes after FromTar, Merge or Decode returned it, so it is
// safe for concurrent use. It shares inodes with the trees it was merged from.
package index

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// BlockSize is the unit of every address in an index, in bytes: a tar stream
// is a sequence of 512-byte records and file data starts at one of them.
const BlockSize = 512

const (
	maxName    = 255     // bytes of one component; EROFS_NAME_LEN, and NAME_MAX of the file systems that REF unpacks to
	maxPath    = 4096    // bytes of an entry's path; PATH_MAX: no reference unpacker can create a longer one
	maxSymlink = 4095    // bytes of a target: a kernel page less the NUL
	maxFile    = 1 << 44 // bytes of a file: ext4's limit, so that every file can be unpacked, too
	maxInodes  = 4 << 20 // of one tree: bounds memory at about 1 GiB whatever the tar says
)

// Attr is what lstat, readlink and listxattr say of a file.
type Attr struct {
	Mode   uint32  // S_IFMT and the 12 permission bits, as in st_mode
	UID    uint32  // numeric owner
	GID    uint32  // numeric group
	Nlink  uint32  // names that the file has in its own layer; not kept for directories
	Rdev   uint32  // device number in the kernel's 32-bit form (new_encode_dev)
	Nsec   uint32  // mtime, nanoseconds
	Sec    int64   // mtime, seconds since 1970, never negative
	Size   int64   // bytes; of a symbolic link its target's length
	Target string  // of a symbolic link
	Xattrs []Xattr // sorted by name, names unique
}

// Xattr is one extended attribute with its full name ("user.k").
type Xattr struct{ Name, Value string }

// IsDir says whether a describes a directory.
func (a *Attr) IsDir() bool { return a.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular says whether a describes a regular file.
func (a *Attr) IsRegular() bool { return a.Mode&unix.S_IFMT == unix.S_IFREG }

// IsSymlink says whether a describes a symbolic link.
func (a *Attr) IsSymlink() bool { return a.Mode&unix.S_IFMT == unix.S_IFLNK }

// IsWhiteout says whether a is overlayfs's mark of a deleted name, a
// character device 0:0.
func (a *Attr) IsWhiteout() bool { return a.Mode&unix.S_IFMT == unix.S_IFCHR && a.Rdev == 0 }

// Xattr returns the value of the extended attribute called name.
func (a *Attr) Xattr(name string) (string, bool) {
	i, ok := a.findXattr(name)
	if !ok {
		return "", false
	}
	return a.Xattrs[i].Value, true
}

func (a *Attr) findXattr(name string) (int, bool) {
	return slices.BinarySearchFunc(a.Xattrs, name, func(x Xattr, n string) int { return strings.Compare(x.Name, n) })
}

// setXattr keeps a.Xattrs sorted. The slice must not be shared.
func (a *Attr) setXattr(name, value string) {
	i, ok := a.findXattr(name)
	if ok {
		a.Xattrs[i].Value = value
		return
	}
	a.Xattrs = slices.Insert(a.Xattrs, i, Xattr{name, value})
}

func (a *Attr) removeXattr(name string) {
	if i, ok := a.findXattr(name); ok {
		a.Xattrs = slices.Delete(a.Xattrs, i, i+1)
	}
}

// Range is a run of a file's bytes. What no Range covers is a hole of zeros.
type Range struct {
	Logical int64 // offset in the file
	Device  int   // number of the layer, 0 is the bottom one
	Offset  int64 // in that layer's tar stream, a multiple of BlockSize
	Size    int64 // bytes, > 0
}

// stored is the number of bytes that data has in the tar streams.
func stored(data []Range) (n int64) {
	for _, r := range data {
		n += r.Size
	}
	return n
}

// inode is one file; hard links are several names of one inode.
type inode struct {
	Attr
	data   []Range           // regular files: sorted by Logical, disjoint
	names  map[string]*inode // directories: what is in them
	below  below             // directories: what they take from the one below them
	opaque bool              // a directory that hides what is below it

	deleted bool // while a tar stream is read: a whiteout by its name, not a device entry
}

// below says what a directory of a layer takes from the one below it, because
// it was made as the parent of an entry.
type below byte

const (
	takesNothing below = iota
	takesAll           // it has no entry of its own
	takesXattrs        // its own entry came later
)

// Tree is the file tree of one layer, or of several merged ones.
type Tree struct {
	root    *inode
	devices int
}

// Devices is the number of tar streams that the tree's ranges point into.
func (t *Tree) Devices() int { return t.devices }

func newDir(mode uint32) *inode {
	return &inode{Attr: Attr{Mode: unix.S_IFDIR | mode}, names: map[string]*inode{}}
}

// sortedNames returns a directory's names in byte order.
func (n *inode) sortedNames() []string {
	s := make([]string, 0, len(n.names))
	for name := range n.names {
		s = append(s, name)
	}
	slices.Sort(s)
	return s
}
