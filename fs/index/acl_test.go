package index_test

import (
	"archive/tar"
	"encoding/binary"
	"testing"
)

// acl makes an ACL of (tag, permissions, id) triples.
func acl(items ...uint32) string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for i := 0; i < len(items); i += 3 {
		b = binary.LittleEndian.AppendUint16(b, uint16(items[i]))
		b = binary.LittleEndian.AppendUint16(b, uint16(items[i+1]))
		b = binary.LittleEndian.AppendUint32(b, items[i+2])
	}
	return string(b)
}

func TestACLs(t *testing.T) {
	const none = 1<<32 - 1
	full := acl(1, 7, none, 2, 5, 1000, 2, 4, 1001, 4, 5, none, 8, 4, 50, 0x10, 7, none, 0x20, 1, none)
	mask := acl(1, 7, 0, 4, 5, 9, 0x10, 4, 9, 0x20, 1, 9)
	small := acl(1, 7, none, 4, 5, none, 0x20, 5, none)
	with := func(h hdr, name, value string) hdr {
		h.Xattrs = map[string]string{"system.posix_acl_" + name: value}
		return h
	}
	def := with(dir("d"), "default", full)
	same(t, layer(
		with(file("full", ""), "access", full), with(file("mask", ""), "access", mask), with(file("small", ""), "access", small), with(dir("dir"), "access", full),
		with(slink("l", "full"), "access", full), with(file("empty", ""), "access", ""), with(file("none", ""), "access", acl()),
		with(file("version", ""), "access", "\x09\x00\x00\x00"), with(file("nodefault", ""), "default", acl()),
		def, file("d/f", ""), dir("d/sub"), file("d/sub/g", ""), file("d/implicit/h", ""), slink("d/l", "f"), hdr{Name: "d/pipe", Type: tar.TypeFifo},
		with(dir("s"), "default", small), file("s/f", ""), dir("s/sub"), with(file("d/own", ""), "access", small),
		with(file("linked", ""), "access", full), hdr{Name: "again", Link: "linked", Type: tar.TypeLink, Mode: 0o600},
	))
	same(t, layer(with(dir("p"), "access", full)), layer(file("p/x", ""), hdr{Name: "p", Type: tar.TypeDir, Mode: 0o700}))
	same(t, layer(with(dir("p"), "access", full)), layer(file("p/x", "")))
	for name, value := range map[string]string{
		"short": "\x02\x00", "odd": full + "x", "order": acl(4, 7, none, 1, 7, none, 0x20, 7, none), "no mask": acl(1, 7, none, 2, 7, 5, 4, 7, none, 0x20, 7, none),
		"two masks": acl(1, 7, none, 4, 7, none, 0x10, 7, none, 0x10, 7, none, 0x20, 7, none), "open": acl(1, 7, none, 4, 7, none),
		"permission": acl(1, 8, none, 4, 7, none, 0x20, 7, none), "tag": acl(3, 7, none),
	} {
		t.Run(name, func(t *testing.T) { refused(t, layer(with(file("f", ""), "access", value))) })
	}
	t.Run("default of a file", func(t *testing.T) { refused(t, layer(with(file("f", ""), "default", full))) })
}
