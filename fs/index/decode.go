package index

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Check says whether img may be mounted with devices of these lengths in
// bytes. It trusts nothing in img; see Decode.
func Check(img []byte, devices []int64) error {
	_, err := decode(img, devices, false)
	return err
}

// Decode reads an image that Encode wrote. It accepts exactly the EROFS images
// of docs/format.md and is meant for hostile ones: every offset lies inside
// img, every data range inside its device, directories form a tree, names are
// sorted and legal, no two parts of the image overlap in a way that would make
// the tree larger than the image. The error matches errdefs.ErrDataLoss.
//
// Memory is bounded by a small multiple of len(img).
func Decode(img []byte, devices []int64) (*Tree, error) { return decode(img, devices, true) }

// decode makes the same checks whether the tree is kept or not.
func decode(img []byte, devices []int64, keep bool) (*Tree, error) {
	d := &decoder{img: img, devices: devices, keep: keep, budget: int64(len(img))}
	root, err := d.super()
	if err != nil {
		return nil, fmt.Errorf("index: superblock: %w", err)
	}
	files := binary.LittleEndian.Uint64(img[superOffset+16:])
	d.seen = make(map[uint64]*decoded, min(files, uint64(len(img))/inodeSize))
	n, err := d.inode(root)
	if err == nil && !n.isDir() {
		err = corrupt("not a directory")
	}
	if err == nil {
		err = d.tree(n, n, "", 0)
	}
	if err != nil {
		return nil, fmt.Errorf("index: root: %w", err)
	}
	if got := uint64(len(d.seen)); got != files {
		return nil, fmt.Errorf("index: %w", corrupt("%d files, superblock says %d", got, files))
	}
	for _, n := range d.seen {
		if !n.isDir() && uint64(n.nlink) < n.refs {
			return nil, fmt.Errorf("index: %w", corrupt("file %d has %d names and nlink %d", n.nid, n.refs, n.nlink))
		}
	}
	if !keep {
		return nil, nil //nolint:nilnil // the verdict is the result
	}
	return &Tree{root: n.inode, devices: len(devices)}, nil
}

type decoder struct {
	img     []byte
	devices []int64
	keep    bool  // the tree, else names and ranges are checked and forgotten
	budget  int64 // bytes of img that inodes may still claim
	seen    map[uint64]*decoded
	scratch inode // where inodes are decoded that are not kept
}

// decoded is an inode with what the checks of the whole tree need.
type decoded struct {
	*inode // not kept: of use while it is decoded only
	nid    uint64
	refs   uint64 // dirents other than "." and ".."
	mode   uint32
	nlink  uint32
	dir    []byte // of a directory: its dirents
}

func (n *decoded) isDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

// super checks the superblock and the device table and returns the root's
// number.
func (d *decoder) super() (uint64, error) {
	img, le := d.img, binary.LittleEndian
	table := int64(deviceTable) + int64(len(d.devices))*deviceSlotSize
	if len(d.devices) > maxDevices || int64(len(img)) < align(table, BlockSize)+BlockSize ||
		len(img)%BlockSize != 0 || int64(len(img))/BlockSize > math.MaxUint32 {
		return 0, corrupt("image of %d bytes with %d devices", len(img), len(d.devices))
	}
	s := img[superOffset:deviceTable]
	want := make([]byte, BlockSize)
	le.PutUint32(want, superMagic)
	le.PutUint32(want[4:], superChecksum(img))
	le.PutUint32(want[8:], compatChecksum|compatMtime)
	want[12] = blockBits
	copy(want[14:24], s[14:24]) // root and number of inodes
	le.PutUint32(want[36:], uint32(len(img)/BlockSize))
	copy(want[48:64], s[48:64]) // UUID
	le.PutUint32(want[80:], incompatChunkedFile)
	if len(d.devices) > 0 {
		le.PutUint32(want[80:], incompatChunkedFile|incompatDeviceTable)
		le.PutUint16(want[86:], uint16(len(d.devices)))
		le.PutUint16(want[88:], deviceTable/deviceSlotSize)
	}
	for i := range want {
		if s[i] != want[i] {
			return 0, corrupt("byte %d is %#x, want %#x", superOffset+i, s[i], want[i])
		}
	}
	for i, size := range d.devices {
		slot := img[deviceTable+i*deviceSlotSize:][:deviceSlotSize]
		if size < 0 || blocks(size) >= nullAddr || int64(le.Uint32(slot[64:])) != blocks(size) {
			return 0, corrupt("device %d has %d blocks, the layer %d bytes", i, le.Uint32(slot[64:]), size)
		}
		if !zero(slot[:64]) || !zero(slot[68:]) {
			return 0, corrupt("device %d: unknown fields", i)
		}
	}
	return uint64(le.Uint16(s[14:])), nil
}

// claim takes n bytes of the image at off for one inode.
func (d *decoder) claim(off, n int64) ([]byte, error) {
	if off < align(deviceTable+int64(len(d.devices))*deviceSlotSize, BlockSize) || n < 0 || off > int64(len(d.img)) || n > int64(len(d.img))-off {
		return nil, corrupt("%d bytes at %d are outside the image", n, off)
	}
	if d.budget -= n; d.budget < 0 {
		return nil, corrupt("parts of the image overlap")
	}
	return d.img[off : off+n : off+n], nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errdefs.ErrDataLoss)...)
}
