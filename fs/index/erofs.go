package index

import (
	"strings"

	"golang.org/x/sys/unix"
)

// The on-disk format of EROFS as far as an index uses it: fs/erofs/erofs_fs.h
// of Linux 6.12 and later. All numbers are little endian.
const (
	superOffset = 1024
	superSize   = 128
	superMagic  = 0xE0F5E1E2
	blockBits   = 9

	compatChecksum      = 0x1
	compatMtime         = 0x2
	incompatChunkedFile = 0x4
	incompatDeviceTable = 0x8

	deviceTable    = 1536 // offset of the device table, behind the superblock's own block
	deviceSlotSize = 128
	maxDevices     = 1<<16 - 1

	slotSize     = 32 // unit of an inode's number: it stands at nid*32, since meta_blkaddr is 0
	inodeSize    = 64 // extended inode
	xattrHeader  = 12
	xattrEntry   = 4
	chunkSize    = 8 // chunk index entry
	direntSize   = 12
	layoutPlain  = 0
	layoutInline = 2
	layoutChunks = 4
	formatExt    = 1 // bit 0 of i_format; the layout is in bits 1-3
	chunkIndexes = 0x20
	maxChunkBits = 31 // 512 bytes << 31 is 1 TiB
	nullAddr     = 1<<32 - 1
	fileTypeDir  = 2

	// maxChunks bounds the chunk index entries of one file: a finely cut
	// sparse file has many. 1<<22 of them are 32 MiB.
	maxChunks = 1 << 22
)

// Extended attributes that an index uses itself.
const (
	opaqueXattr   = "trusted.overlay.opaque"           // value "y": overlayfs's own
	implicitXattr = "trusted.overlay.faasnet.implicit" // value of implicitValues; overlayfs hides the prefix
)

// implicitValues are the stored forms of below.
var implicitValues = map[below]string{takesAll: "all", takesXattrs: "xattrs"}

// xattrPrefixes are the name indexes of EROFS that an index may have. The two
// of ACLs are whole names.
var xattrPrefixes = [...]struct {
	index byte
	name  string
}{
	{1, "user."},
	{2, "system.posix_acl_access"},
	{3, "system.posix_acl_default"},
	{4, "trusted."},
	{6, "security."},
}

// splitXattr returns the index of name's prefix and the rest of it.
func splitXattr(name string) (byte, string) {
	for _, p := range xattrPrefixes {
		if rest, ok := strings.CutPrefix(name, p.name); ok {
			return p.index, rest
		}
	}
	return 0, name
}

func xattrEntrySize(x Xattr) int {
	_, rest := splitXattr(x.Name)
	return align(xattrEntry+len(rest)+len(x.Value), 4)
}

// diskXattrs returns n's attributes and its marks as they are stored.
func (n *inode) diskXattrs() []Xattr {
	if !n.opaque && n.below == takesNothing {
		return n.Xattrs
	}
	a := Attr{Xattrs: append([]Xattr(nil), n.Xattrs...)}
	if n.opaque {
		a.setXattr(opaqueXattr, "y")
	}
	if v, ok := implicitValues[n.below]; ok {
		a.setXattr(implicitXattr, v)
	}
	return a.Xattrs
}

// fileType is a dirent's type byte.
func fileType(mode uint32) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 1
	case unix.S_IFDIR:
		return 2
	case unix.S_IFCHR:
		return 3
	case unix.S_IFBLK:
		return 4
	case unix.S_IFIFO:
		return 5
	case unix.S_IFLNK:
		return 7
	}
	return 0
}

func align[T int | int64](n, unit T) T { return (n + unit - 1) / unit * unit }

func blocks(bytes int64) int64 { return (bytes + BlockSize - 1) / BlockSize }
