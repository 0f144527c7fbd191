package index

import (
	"archive/tar"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Names with a meaning in a layer, of the OCI image specification.
const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// add creates a file in parent. Like the kernel it takes the group of a
// set-group-ID parent, and a default ACL; the owner is the unpacker's, root.
func (u *unpacker) add(parent *inode, base string, mode uint32) (*inode, error) {
	if len(base) > maxName {
		return nil, nameTooLong(base)
	}
	if u.inodes++; u.inodes > maxInodes {
		return nil, fmt.Errorf("more than %d files in a layer: %w", maxInodes, errdefs.ErrInvalidArgument)
	}
	n := &inode{Attr: Attr{Mode: mode}}
	if n.IsDir() {
		n.names = map[string]*inode{}
	}
	if parent.Mode&unix.S_ISGID != 0 {
		n.GID = parent.GID
	}
	inheritACL(n, parent)
	parent.names[base] = n
	return n, nil
}

// checkChunks refuses files that an index cannot hold: a sparse file may be
// large, or finely cut, in a small tar.
func (u *unpacker) checkChunks(n *inode) error {
	if n.Size > maxFile {
		return fmt.Errorf("file of %d bytes, the limit is %d: %w", n.Size, int64(maxFile), errdefs.ErrInvalidArgument)
	}
	_, count, err := n.chunkBits()
	if err != nil {
		return err
	}
	if u.chunks += count; u.chunks > maxInodes+maxChunks {
		return fmt.Errorf("sparse files of one layer need more than %d chunks: %w", maxInodes+maxChunks, errdefs.ErrInvalidArgument)
	}
	return nil
}

// mkdirs finds the directory p and makes what is missing of it.
func (u *unpacker) mkdirs(p string) (*inode, error) {
	dir := u.root
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if name == "" {
			break
		}
		next, ok := dir.names[name]
		if !ok || next.deleted {
			var err error
			if next, err = u.add(dir, name, unix.S_IFDIR|0o755); err != nil {
				return nil, err
			}
			next.below, next.opaque = takesAll, ok
		}
		if !next.IsDir() {
			return nil, fmt.Errorf("parent %q is not a directory in this layer: %w", name, errdefs.ErrInvalidArgument)
		}
		dir = next
	}
	return dir, nil
}

// whiteout handles the names that mean a deletion. In the bottom layer of an
// image containerd removes what the name deletes, in others it makes a mark and
// fails where that cannot be. A layer has one tree wherever it is: what came
// before is removed, and the mark stays for what is below.
func (u *unpacker) whiteout(hdr *tar.Header, parent *inode, base string) (bool, error) {
	if base == whiteoutOpaque {
		parent.opaque = true
		return true, nil
	}
	name, ok := strings.CutPrefix(base, whiteoutPrefix)
	if !ok {
		return false, nil
	}
	if name == "" || name == "." || name == ".." {
		return true, fmt.Errorf("invalid whiteout name: %w", errdefs.ErrInvalidArgument)
	}
	delete(parent.names, name)
	n, err := u.add(parent, name, unix.S_IFCHR)
	if err == nil {
		n.deleted = true
		chown(n, hdr)
	}
	return true, err
}

// link gives the file at target one more name. The target is found as
// hardlinkRootPath does: its parent's links are resolved, its own are not.
func (u *unpacker) link(target string, parent *inode, base string) (*inode, error) {
	dir, file := path.Split(target)
	at, err := u.rootPath(dir)
	if err != nil {
		return nil, fmt.Errorf("hard link target %q: %w", target, err)
	}
	n, err := u.lstat(path.Join(at, file))
	switch {
	case err != nil:
		return nil, fmt.Errorf("hard link target %q: %w", target, err)
	case n == nil:
		return nil, fmt.Errorf("hard link target %q is not in this layer before it: %w", target, errdefs.ErrInvalidArgument)
	case n.IsDir():
		return nil, fmt.Errorf("hard link target %q is a directory: %w", target, errdefs.ErrInvalidArgument)
	case len(base) > maxName:
		return nil, nameTooLong(base)
	}
	parent.names[base] = n
	return n, nil
}

func (u *unpacker) device(hdr *tar.Header, parent *inode, base string) (*inode, error) {
	if hdr.Devmajor < 0 || hdr.Devmajor > math.MaxUint32 || hdr.Devminor < 0 || hdr.Devminor > math.MaxUint32 {
		return nil, fmt.Errorf("device number %d:%d out of range: %w", hdr.Devmajor, hdr.Devminor, errdefs.ErrInvalidArgument)
	}
	mode := uint32(unix.S_IFCHR)
	if hdr.Typeflag == tar.TypeBlock {
		mode = unix.S_IFBLK
	}
	n, err := u.add(parent, base, mode)
	if err == nil {
		// mknod(2) takes 32 bits, so larger numbers lose their high ones.
		n.Rdev = uint32(unix.Mkdev(uint32(hdr.Devmajor), uint32(hdr.Devminor)))
	}
	return n, err
}

// setAttr gives n the attributes of hdr. For a hard link n is the file it
// links to: in containerd, too, the link's header changes it.
func setAttr(n *inode, hdr *tar.Header) error {
	chown(n, hdr)
	if err := setXattrs(n, hdr.PAXRecords); err != nil {
		return err
	}
	if !n.IsSymlink() {
		n.Mode = n.Mode&unix.S_IFMT | uint32(hdr.Mode)&0o7777
		chmodACL(&n.Attr)
	}
	n.Sec, n.Nsec = boundTime(hdr.ModTime)
	return nil
}

// chown sets owner and group as chown(2) does: ids are 32 bits, all ones mean
// no change, and the capabilities of a program are lost.
func chown(n *inode, hdr *tar.Header) {
	if id := uint32(hdr.Uid); id != math.MaxUint32 {
		n.UID = id
	}
	if id := uint32(hdr.Gid); id != math.MaxUint32 {
		n.GID = id
	}
	if !n.IsDir() {
		n.removeXattr("security.capability")
	}
}

// boundTime is containerd's: what 64 bits of nanoseconds since 1970 do not
// hold becomes 1970.
func boundTime(t time.Time) (sec int64, nsec uint32) {
	if t.Before(time.Unix(0, 0)) || t.After(time.Unix(0, math.MaxInt64)) {
		return 0, 0
	}
	return t.Unix(), uint32(t.Nanosecond())
}
