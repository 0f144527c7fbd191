package index

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// inode decodes the inode with number nid, once.
func (d *decoder) inode(nid uint64) (*decoded, error) {
	if n, ok := d.seen[nid]; ok {
		return n, nil
	}
	if nid > uint64(len(d.img))/slotSize {
		return nil, corrupt("inode %d is outside the image", nid)
	}
	at := int64(nid) * slotSize
	b, err := d.claim(at, inodeSize)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	format, size := le.Uint16(b), le.Uint64(b[8:])
	n := &decoded{nid: nid, mode: uint32(le.Uint16(b[4:])), nlink: le.Uint32(b[44:]), inode: &d.scratch}
	if d.keep {
		n.inode = new(inode)
	}
	*n.inode = inode{Attr: Attr{
		Mode: n.mode, UID: le.Uint32(b[24:]), GID: le.Uint32(b[28:]),
		Sec: int64(le.Uint64(b[32:])), Nsec: le.Uint32(b[40:]), Nlink: n.nlink,
	}}
	if format&1 != formatExt || format>>4 != 0 || at%BlockSize+inodeSize > BlockSize || !zero(b[6:8]) || !zero(b[48:]) || uint64(le.Uint32(b[20:])) != nid {
		return nil, corrupt("inode %d: unknown form %#x", nid, format)
	}
	if n.Sec < 0 || n.Nsec >= 1e9 || n.Nlink == 0 || size > maxFile {
		return nil, corrupt("inode %d: mtime %d.%d, nlink %d, size %d", nid, n.Sec, n.Nsec, n.Nlink, size)
	}
	end := at + inodeSize
	if count := int64(le.Uint16(b[2:])); count > 0 {
		x, err := d.claim(end, xattrHeader+(count-1)*4)
		if err == nil {
			err = n.getXattrs(x)
		}
		if err != nil {
			return nil, err
		}
		end += int64(len(x))
	}
	c := contents{end: end, size: int64(size), layout: int(format >> 1), union: le.Uint32(b[16:])}
	if err := d.contents(n, c); err != nil {
		return nil, err
	}
	d.seen[nid] = n
	return n, nil
}

// contents is what an inode says of its file's bytes.
type contents struct {
	end    int64 // of the inode and its extended attributes
	size   int64
	layout int
	union  uint32 // i_u: block, device number or chunk format
}

func (d *decoder) contents(n *decoded, c contents) (err error) {
	kind := n.Mode & unix.S_IFMT
	switch {
	case kind == unix.S_IFREG && c.layout == layoutChunks && c.size > 0:
		n.Size = c.size
		return d.chunks(n, c)
	case kind == unix.S_IFREG && c.layout == layoutPlain && c.size == 0 && c.union == 0:
		return nil
	case kind == unix.S_IFDIR && c.size > 0:
		if d.keep {
			n.names = map[string]*inode{}
		}
		n.dir, err = d.bytes(c)
		return err
	case kind == unix.S_IFLNK && c.size > 0 && c.size <= maxSymlink:
		b, err := d.bytes(c)
		if err == nil && bytes.IndexByte(b, 0) >= 0 {
			err = corrupt("inode %d: NUL in a link target", n.nid)
		}
		n.Target, n.Size = string(b), c.size
		return err
	case (kind == unix.S_IFCHR || kind == unix.S_IFBLK) && c.layout == layoutPlain && c.size == 0:
		n.Rdev = c.union
		return nil
	case kind == unix.S_IFIFO && c.layout == layoutPlain && c.size == 0 && c.union == 0:
		return nil
	}
	return corrupt("inode %d: mode %#o with layout %d and size %d", n.nid, n.Mode, c.layout, c.size)
}

// bytes returns content that is in the image.
func (d *decoder) bytes(c contents) ([]byte, error) {
	head := c.size
	var tail []byte
	switch c.layout {
	case layoutPlain:
	case layoutInline:
		n := c.size % BlockSize
		if head -= n; n == 0 || c.end%BlockSize+n > BlockSize {
			return nil, corrupt("inline content of %d bytes at %d crosses a block", n, c.end)
		}
		b, err := d.claim(c.end, n)
		if err != nil {
			return nil, err
		}
		tail = b
	default:
		return nil, corrupt("layout %d", c.layout)
	}
	if head == 0 {
		if c.union != 0 {
			return nil, corrupt("block %d without content", c.union)
		}
		return tail, nil
	}
	b, err := d.claim(int64(c.union)*BlockSize, head)
	return append(b, tail...), err
}

// chunks decodes the chunk index of a regular file to ranges.
func (d *decoder) chunks(n *decoded, c contents) error {
	le := binary.LittleEndian
	shift := c.union & maxChunkBits
	if c.union != chunkIndexes|shift {
		return corrupt("inode %d: chunk format %#x", n.nid, c.union)
	}
	chunk := int64(BlockSize) << shift
	count := (c.size-1)/chunk + 1
	if count > maxChunks {
		return corrupt("inode %d: %d chunks", n.nid, count)
	}
	b, err := d.claim(align(c.end, chunkSize), count*chunkSize)
	if err != nil {
		return err
	}
	for i := range count {
		e := b[i*chunkSize:]
		dev, addr := int(le.Uint16(e[2:])), le.Uint32(e[4:])
		if dev == 0 && addr == nullAddr && le.Uint16(e) == 0 {
			continue
		}
		r := Range{Logical: i * chunk, Device: dev - 1, Offset: int64(addr) * BlockSize, Size: min(chunk, c.size-i*chunk)}
		if le.Uint16(e) != 0 || dev == 0 || dev > len(d.devices) || r.Offset > d.devices[r.Device]-r.Size {
			return corrupt("inode %d: chunk %d is at %d of device %d", n.nid, i, r.Offset, r.Device)
		}
		if d.keep {
			n.data = appendRange(n.data, r)
		}
	}
	return nil
}

// getXattrs decodes extended attributes and turns an index's own into flags.
func (n *decoded) getXattrs(b []byte) error {
	if !zero(b[:xattrHeader]) || len(b) == xattrHeader {
		return corrupt("inode %d: shared or empty extended attributes", n.nid)
	}
	last := ""
	for b = b[xattrHeader:]; len(b) > 0; {
		nameLen, index, valueLen := int(b[0]), b[1], int(binary.LittleEndian.Uint16(b[2:]))
		used := xattrEntry + nameLen + valueLen
		if align(used, 4) > len(b) || !zero(b[used:align(used, 4)]) {
			return corrupt("inode %d: extended attribute of %d bytes", n.nid, used)
		}
		x := Xattr{string(b[xattrEntry : xattrEntry+nameLen]), string(b[xattrEntry+nameLen : used])}
		prefix := xattrPrefix(index)
		whole := index == 2 || index == 3
		x.Name = prefix + x.Name
		if prefix == "" || whole != (nameLen == 0) || len(x.Name) > maxName || x.Name <= last || strings.IndexByte(x.Name, 0) >= 0 {
			return corrupt("inode %d: extended attribute %q after %q", n.nid, x.Name, last)
		}
		last = x.Name
		b = b[align(used, 4):]
		switch dir := n.IsDir(); {
		case x.Name == opaqueXattr && x.Value == "y" && dir:
			n.opaque = true
		case x.Name == implicitXattr && x.Value == implicitValues[takesAll] && dir:
			n.below = takesAll
		case x.Name == implicitXattr && x.Value == implicitValues[takesXattrs] && dir:
			n.below = takesXattrs
		case strings.HasPrefix(x.Name, "trusted."):
			// No other one: overlayfs would obey trusted.overlay.redirect.
			return corrupt("inode %d: extended attribute %q=%q", n.nid, x.Name, x.Value)
		default:
			n.Xattrs = append(n.Xattrs, x)
		}
	}
	return nil
}

func xattrPrefix(index byte) string {
	for _, p := range xattrPrefixes {
		if p.index == index {
			return p.name
		}
	}
	return ""
}
