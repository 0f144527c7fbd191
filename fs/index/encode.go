package index

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Encode writes t as an EROFS image of metadata only. devices are the lengths
// in bytes of the tar streams that it points into; the image says them in
// blocks, so that a mount with too short a device can be refused.
//
// The image depends on nothing but t and devices: the same tree gives the same
// bytes.
func (t *Tree) Encode(devices []int64) ([]byte, error) {
	if len(devices) != t.devices {
		return nil, fmt.Errorf("index has %d devices, got %d lengths: %w", t.devices, len(devices), errdefs.ErrInvalidArgument)
	}
	l, err := t.layout()
	if err != nil {
		return nil, err
	}
	img := make([]byte, l.end)
	for i, size := range devices {
		if size < 0 || blocks(size) >= nullAddr {
			return nil, tooLarge(fmt.Sprintf("layer %d", i), size)
		}
		binary.LittleEndian.PutUint32(img[deviceTable+i*deviceSlotSize+64:], uint32(blocks(size)))
	}
	for _, p := range l.order {
		if err := p.checkRanges(devices); err != nil {
			return nil, err
		}
		l.put(img, p)
	}
	l.putSuper(img, t)
	return img, nil
}

// putSuper writes the superblock, when all else is written: the UUID is the
// start of the SHA-256 of the image without UUID and checksum.
func (l *layout) putSuper(img []byte, t *Tree) {
	s := img[superOffset:]
	le := binary.LittleEndian
	le.PutUint32(s, superMagic)
	le.PutUint32(s[8:], compatChecksum|compatMtime)
	s[12] = blockBits
	le.PutUint16(s[14:], uint16(l.order[0].at/slotSize))
	le.PutUint64(s[16:], uint64(len(l.order)))
	le.PutUint32(s[36:], uint32(l.end/BlockSize))
	if t.devices > 0 {
		le.PutUint32(s[80:], incompatChunkedFile|incompatDeviceTable)
		le.PutUint16(s[86:], uint16(t.devices))
		le.PutUint16(s[88:], deviceTable/deviceSlotSize)
	} else {
		le.PutUint32(s[80:], incompatChunkedFile)
	}
	sum := sha256.Sum256(img)
	copy(s[48:64], sum[:])
	le.PutUint32(s[4:], superChecksum(img))
}

// superChecksum is the kernel's crc32c of the superblock's block, with the
// checksum taken as zero and without the final inversion.
func superChecksum(img []byte) uint32 {
	var b [BlockSize]byte
	copy(b[:], img[superOffset:])
	clear(b[4:8])
	return ^crc32.Checksum(b[:], crc32.MakeTable(crc32.Castagnoli))
}

// put writes the inode p, its extended attributes and its content.
func (l *layout) put(img []byte, p *placed) {
	le := binary.LittleEndian
	b := img[p.at:]
	le.PutUint16(b, uint16(p.layout<<1|formatExt))
	le.PutUint16(b[4:], uint16(p.Mode))
	le.PutUint64(b[8:], uint64(p.size))
	le.PutUint32(b[16:], uint32(p.block))
	le.PutUint32(b[20:], uint32(p.at/slotSize))
	le.PutUint32(b[24:], p.UID)
	le.PutUint32(b[28:], p.GID)
	le.PutUint64(b[32:], uint64(p.Sec))
	le.PutUint32(b[40:], p.Nsec)
	le.PutUint32(b[44:], p.Nlink)
	if x := p.diskXattrs(); len(x) > 0 {
		le.PutUint16(b[2:], uint16((p.head-inodeSize-xattrHeader)/4+1))
		putXattrs(b[inodeSize:p.head], x)
	}
	switch p.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if p.chunks > 0 {
			le.PutUint32(b[16:], uint32(chunkIndexes|p.shift))
			p.putChunks(b[align(p.head, chunkSize):])
		}
	case unix.S_IFCHR, unix.S_IFBLK:
		le.PutUint32(b[16:], p.Rdev)
	case unix.S_IFLNK:
		p.putContent(img, []byte(p.Target))
	case unix.S_IFDIR:
		le.PutUint32(b[44:], p.subdirs()+2)
		c := make([]byte, p.size)
		putDir(c, p.dirs, func(name string) (uint64, uint32) {
			q := p
			switch name {
			case ".":
			case "..":
				q = p.parent
			default:
				q = l.nids[p.names[name]]
			}
			return uint64(q.at / slotSize), q.Mode
		})
		p.putContent(img, c)
	}
}

// putContent writes c to p's blocks and the rest of it behind p.
func (p *placed) putContent(img, c []byte) {
	n := len(c)
	if p.layout == layoutInline {
		n -= n % BlockSize
		copy(img[p.at+p.head:], c[n:])
	}
	copy(img[p.block*BlockSize:], c[:n])
}

func (p *placed) putChunks(b []byte) {
	le := binary.LittleEndian
	data := p.data
	for i := range p.chunks {
		e := b[i*chunkSize:]
		pos := int64(i) << (p.shift + blockBits)
		for len(data) > 0 && pos >= data[0].Logical+data[0].Size {
			data = data[1:]
		}
		if len(data) == 0 || pos < data[0].Logical {
			le.PutUint32(e[4:], nullAddr)
			continue
		}
		le.PutUint16(e[2:], uint16(data[0].Device+1))
		le.PutUint32(e[4:], uint32((data[0].Offset+pos-data[0].Logical)/BlockSize))
	}
}

func putXattrs(b []byte, xattrs []Xattr) {
	b = b[xattrHeader:]
	for _, x := range xattrs {
		index, rest := splitXattr(x.Name)
		b[0], b[1] = byte(len(rest)), index
		binary.LittleEndian.PutUint16(b[2:], uint16(len(x.Value)))
		copy(b[xattrEntry:], rest)
		copy(b[xattrEntry+len(rest):], x.Value)
		b = b[xattrEntrySize(x):]
	}
}

func (n *inode) subdirs() (count uint32) {
	for _, c := range n.names {
		if c.IsDir() {
			count++
		}
	}
	return count
}

func tooLarge(what string, size int64) error {
	return fmt.Errorf("%s of %d bytes is too large for an index: %w", what, size, errdefs.ErrInvalidArgument)
}
