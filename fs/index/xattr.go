package index

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const paxXattr = "SCHILY.xattr."

// Limits of extended attributes, in bytes.
const (
	maxXattrValue = 65535           // e_value_size has 16 bits; the kernel's XATTR_SIZE_MAX is one more
	maxXattrBytes = (1<<16 - 2) * 4 // all entries of an inode: i_xattr_icount has 16 bits
)

// setXattrs applies the extended attributes among a header's PAX records.
func setXattrs(n *inode, pax map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(pax)) {
		name, ok := strings.CutPrefix(key, paxXattr)
		if !ok {
			continue
		}
		if err := setXattr(n, name, pax[key]); err != nil {
			return fmt.Errorf("extended attribute %q: %w", name, err)
		}
	}
	size := 0
	for _, x := range n.Xattrs {
		size += xattrEntrySize(x)
	}
	if size > maxXattrBytes {
		return fmt.Errorf("extended attributes take %d bytes, the limit is %d: %w", size, maxXattrBytes, errdefs.ErrInvalidArgument)
	}
	return nil
}

// setXattr does what lsetxattr(2) as root does, and ignores what containerd
// ignores: trusted.* and every name that the file system would not take.
func setXattr(n *inode, name, value string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name has %d bytes, want 1..%d: %w", len(name), maxName, errdefs.ErrInvalidArgument)
	}
	if len(value) > maxXattrValue {
		return fmt.Errorf("value has %d bytes, the limit is %d: %w", len(value), maxXattrValue, errdefs.ErrInvalidArgument)
	}
	switch {
	case name == "user." || name == "security.":
		return fmt.Errorf("empty name: %w", errdefs.ErrInvalidArgument)
	case name == "security.capability":
		if l := len(value); l != 20 && l != 24 {
			return fmt.Errorf("value has %d bytes, want 20 or 24: %w", l, errdefs.ErrInvalidArgument)
		}
	case strings.HasPrefix(name, "user."):
		if t := n.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
			return nil // EPERM, which containerd ignores
		}
	case name == accessACL || name == defaultACL:
		return setACL(n, name, value)
	case strings.HasPrefix(name, "security."):
	default:
		return nil // trusted.*, or ENOTSUP
	}
	n.setXattr(name, value)
	return nil
}
