package index

import (
	"encoding/binary"
	"fmt"

	"github.com/containerd/errdefs"
)

// POSIX ACLs as linux/posix_acl_xattr.h stores them: a version, then entries
// of tag, permissions and id.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"

	aclVersion   = 2
	aclHeader    = 4
	aclEntry     = 8
	aclUserObj   = 0x01
	aclUser      = 0x02
	aclGroupObj  = 0x04
	aclGroup     = 0x08
	aclMask      = 0x10
	aclOther     = 0x20
	aclUndefined = 1<<32 - 1
)

type aclItem struct {
	tag, perm uint16
	id        uint32
}

// parseACL reads an ACL and checks it as posix_acl_valid does. ok is false for
// a version that the kernel does not support.
func parseACL(v string) (acl []aclItem, ok bool, err error) {
	b := []byte(v)
	bad := fmt.Errorf("malformed ACL: %w", errdefs.ErrInvalidArgument)
	if len(b) < aclHeader {
		return nil, false, bad
	}
	le := binary.LittleEndian
	if le.Uint32(b) != aclVersion {
		return nil, false, nil
	}
	if b = b[aclHeader:]; len(b)%aclEntry != 0 {
		return nil, false, bad
	}
	next, mask := uint16(aclUserObj), false
	for ; len(b) > 0; b = b[aclEntry:] {
		e := aclItem{le.Uint16(b), le.Uint16(b[2:]), aclUndefined}
		valid := e.perm <= 7
		switch e.tag {
		case aclUserObj:
			valid = valid && next == aclUserObj
			next = aclUser
		case aclUser, aclGroup:
			e.id = le.Uint32(b[4:])
			valid = valid && next == e.tag && e.id != aclUndefined
			mask = true
		case aclGroupObj:
			valid = valid && next == aclUser
			next = aclGroup
		case aclMask:
			valid = valid && next == aclGroup
			next, mask = aclOther, false
		case aclOther:
			valid = valid && (next == aclOther || next == aclGroup && !mask)
			next = 0
		default:
			valid = false
		}
		if !valid {
			return nil, false, bad
		}
		acl = append(acl, e)
	}
	if len(acl) > 0 && next != 0 {
		return nil, false, bad
	}
	return acl, true, nil
}

func formatACL(acl []aclItem) string {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range acl {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return string(b)
}

// setACL is setxattr(2) of an ACL: one that says no more than the mode does is
// not kept.
func setACL(n *inode, name, value string) error {
	if n.IsSymlink() {
		return nil // ENOTSUP, which containerd ignores
	}
	var acl []aclItem
	if value != "" {
		var ok bool
		var err error
		if acl, ok, err = parseACL(value); !ok {
			return err
		}
	}
	switch {
	case name == defaultACL && !n.IsDir() && len(acl) > 0:
		return fmt.Errorf("default ACL of a file: %w", errdefs.ErrInvalidArgument)
	case len(acl) == 0 || name == accessACL && !extended(acl):
		n.removeXattr(name)
	default:
		n.setXattr(name, formatACL(acl))
	}
	return nil
}

// extended says whether acl has more than the three entries of a mode.
func extended(acl []aclItem) bool { return len(acl) > 3 }

// chmodACL brings n's access ACL in line with its mode, as chmod(2) does.
func chmodACL(a *Attr) {
	v, ok := a.Xattr(accessACL)
	if !ok {
		return
	}
	acl, ok, err := parseACL(v)
	if !ok || err != nil {
		return
	}
	for i := range acl {
		switch acl[i].tag { // an extended ACL has a mask, which takes the group's bits
		case aclUserObj:
			acl[i].perm = uint16(a.Mode >> 6 & 7)
		case aclMask:
			acl[i].perm = uint16(a.Mode >> 3 & 7)
		case aclOther:
			acl[i].perm = uint16(a.Mode & 7)
		}
	}
	a.setXattr(accessACL, formatACL(acl))
}

// inheritACL gives a new file the default ACL of its directory.
func inheritACL(n, parent *inode) {
	v, ok := parent.Xattr(defaultACL)
	if !ok || n.IsSymlink() {
		return
	}
	if n.IsDir() {
		n.setXattr(defaultACL, v)
	}
	if acl, ok, err := parseACL(v); ok && err == nil && extended(acl) {
		n.setXattr(accessACL, v)
		chmodACL(&n.Attr)
	}
}
