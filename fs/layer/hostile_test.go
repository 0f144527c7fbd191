package layer

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// raw returns a section around body, which is stored and not compressed, so
// that a fuzzer sees what it changes. body may be right or wrong, and has at
// most 128 KiB.
func raw(k kind, body []byte) []byte {
	le := binary.LittleEndian
	z := append(le.AppendUint32(nil, 0xFD2FB528), 0xa0) // single segment, 4 bytes of content size
	z = le.AppendUint32(z, uint32(len(body)))
	z = append(z, byte(len(body)<<3)|1, byte(len(body)>>5), byte(len(body)>>13))
	z = append(z, body...)
	return rawSection(k, uint64(len(body)), z)
}

// rawSection returns a section with these numbers around z.
func rawSection(k kind, body uint64, z []byte) []byte {
	le := binary.LittleEndian
	p := le.AppendUint32(nil, skippableMagic)
	p = le.AppendUint32(p, uint32(sectionHeader+len(z)))
	p = append(p, sectionMagic...)
	p = le.AppendUint16(p, 1)
	p = le.AppendUint16(p, uint16(k))
	p = le.AppendUint32(p, sectionHeader)
	p = le.AppendUint64(p, body)
	return append(p, z...)
}

// with returns p with b at offset at.
func with(p []byte, at int, b ...byte) []byte {
	p = bytes.Clone(p)
	copy(p[at:], b)
	return p
}

// hostileHeaders are changes of a good section that either parser must refuse.
func hostileHeaders(good []byte) map[string][]byte {
	most := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	rle := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x10, 0, 0, 0, 0, 3, 0, 0x10, 'x'} // states 256 MiB, has 128 KiB
	return map[string][]byte{
		"empty":                  nil,
		"truncated header":       good[:sectionPrefix-1],
		"truncated body":         good[:len(good)-1],
		"header only":            good[:sectionPrefix],
		"byte behind the end":    append(bytes.Clone(good), 0),
		"another skippable":      with(good, 0, 0x50),
		"a zstd frame":           with(good, 0, 0x28, 0xb5, 0x2f, 0xfd),
		"payload 0":              with(good, 4, 0, 0, 0, 0),
		"payload one less":       with(good, 4, good[4]-1),
		"payload 2^32-1":         with(good, 4, most[:4]...),
		"magic":                  with(good, 8, 'f'),
		"version 0":              with(good, 16, 0),
		"version 2":              with(good, 16, 2),
		"version 65535":          with(good, 16, most[:2]...),
		"kind 0":                 with(good, 18, 0),
		"kind 3":                 with(good, 18, 3),
		"header size 0":          with(good, 20, 0, 0, 0, 0),
		"header size 23":         with(good, 20, 23),
		"header size 25":         with(good, 20, 25),
		"header size 2^32-1":     with(good, 20, most[:4]...),
		"body size 0":            with(good, 24, 0, 0, 0, 0, 0, 0, 0, 0),
		"body size one more":     with(good, 24, good[24]+1),
		"body size 4 GiB":        with(good, 24, 0, 0, 0, 0, 1),
		"body size 2^63":         with(good, 24, 0, 0, 0, 0, 0, 0, 0, 0x80),
		"body size 2^64-1":       with(good, 24, most...),
		"body not zstd":          with(good, sectionPrefix, 0),
		"256 MiB in 17 bytes":    rawSection(kindMeta, block.MaxDecoded, rle),
		"more than 256 MiB":      rawSection(kindMeta, block.MaxDecoded+1, rle),
		"two frames in the body": rawSection(kindMeta, 0, []byte(block.EmptyFrame+block.EmptyFrame)),
	}
}

// table16 returns the first 16 bytes of a block table.
func table16(blockSize, count uint32, length uint64) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, blockSize), count), length)
}

// field returns b with its length in front.
func field(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// hostileMetas are bodies that ParseMeta must refuse.
func hostileMetas(good []byte) map[string][]byte {
	empty := field(table16(block.MinSize, 0, 0))
	return map[string][]byte{
		"empty":                    {},
		"length cut off":           {1, 2, 3},
		"table longer than body":   {0xff, 0xff, 0xff, 0xff, 0},
		"table of nothing":         append(field(nil), field(nil)...),
		"table count 2^32-1":       append(field(table16(block.MinSize, math.MaxUint32, math.MaxInt64)), field(nil)...),
		"no index":                 empty,
		"index longer than body":   append(bytes.Clone(empty), 5, 0, 0, 0, 1),
		"index of 2^32-1":          append(bytes.Clone(empty), 0xff, 0xff, 0xff, 0xff),
		"byte behind the end":      append(bytes.Clone(good), 0),
		"last byte is missing":     good[:len(good)-1],
		"block size of the future": append(field(table16(block.MaxSize*2, 0, 0)), field(nil)...),
	}
}

// hostileImages are bodies that ParseImage must refuse.
func hostileImages(good []byte) map[string][]byte {
	ids := make([]byte, 64)
	layer := func(size uint64, table []byte) []byte {
		b := append([]byte{1, 0, 0, 0}, ids...)
		b = binary.LittleEndian.AppendUint64(b, size)
		return append(append(b, field(table)...), field(nil)...)
	}
	many := func(n int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(n))
		l := layer(1, table16(block.MinSize, 0, 0))
		for range n {
			b = append(b, l[4:len(l)-4]...)
		}
		return append(b, field(nil)...)
	}
	one := append(table16(block.MinSize, 1, 1), append([]byte{9, 0, 0, 0}, ids[:32]...)...)
	return map[string][]byte{
		"empty":                  {},
		"count cut off":          {1, 0},
		"count 2^32-1":           {0xff, 0xff, 0xff, 0xff},
		"count 1025":             many(1025),
		"count beyond the bytes": with(good, 0, 200),
		"one layer less":         with(good, 0, good[0]-1),
		"one layer more":         with(good, 0, good[0]+1),
		"layer of 0 bytes":       layer(0, one),
		"layer of 8 bytes":       layer(8, one), // its block takes 9
		"layer of 2^63 bytes":    layer(1<<63, one),
		"layer of 2^64-1 bytes":  layer(math.MaxUint64, one),
		"table cut off":          layer(1000, one[:len(one)-1]),
		"byte behind the end":    append(bytes.Clone(good), 0),
		"last byte is missing":   good[:len(good)-1],
	}
}

func TestSE06_HostileSections(t *testing.T) {
	metaBody, imageBody := goodBodies(t)
	parseMeta := func(p []byte) error { _, err := ParseMeta(p); return err }
	parseImage := func(p []byte) error { _, err := ParseImage(p); return err }
	if err := parseMeta(raw(kindMeta, metaBody)); err != nil {
		t.Fatal(err)
	}
	if err := parseImage(raw(kindImage, imageBody)); err != nil {
		t.Fatal(err)
	}
	refuse := func(name string, parse func([]byte) error, p []byte) {
		var err error
		n := allocated(func() { err = parse(p) })
		if !errdefs.IsInvalidArgument(err) && !errdefs.IsDataLoss(err) && !errdefs.IsNotImplemented(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if n > 2<<20 {
			t.Errorf("%s: allocated %d bytes", name, n)
		}
	}
	for name, p := range hostileHeaders(raw(kindMeta, metaBody)) {
		refuse("meta: "+name, parseMeta, p)
	}
	for name, p := range hostileHeaders(raw(kindImage, imageBody)) {
		refuse("image: "+name, parseImage, p)
	}
	for name, b := range hostileMetas(metaBody) {
		refuse("meta body: "+name, parseMeta, raw(kindMeta, b))
	}
	for name, b := range hostileImages(imageBody) {
		refuse("image body: "+name, parseImage, raw(kindImage, b))
	}
	refuse("a metadata section for an image section", parseImage, raw(kindMeta, metaBody))
	refuse("an image section for a metadata section", parseMeta, raw(kindImage, imageBody))
}

func TestUnknownVersionSaysSo(t *testing.T) {
	metaBody, _ := goodBodies(t)
	if _, err := ParseMeta(with(raw(kindMeta, metaBody), 16, 2)); !errdefs.IsNotImplemented(err) {
		t.Errorf("got %v, want ErrNotImplemented", err)
	}
}

// TestLongerHeaderIsReadable keeps a promise to later writers of version 1:
// fields may be added to the header.
func TestLongerHeaderIsReadable(t *testing.T) {
	metaBody, _ := goodBodies(t)
	p := raw(kindMeta, metaBody)
	longer := append(bytes.Clone(p[:sectionPrefix]), "more"...)
	longer = append(longer, p[sectionPrefix:]...)
	longer = with(with(longer, 4, byte(len(longer)-frameHeader), byte((len(longer)-frameHeader)>>8)), 20, sectionHeader+4)
	if _, err := ParseMeta(longer); err != nil {
		t.Error(err)
	}
}

// goodBodies returns bodies that parse.
func goodBodies(t testing.TB) (meta, image []byte) {
	t.Helper()
	img := writeImage(t)
	meta, err := encodeMeta(&Meta{Table: img.sections.Image.Layers[2].Table, Index: blocktest.Text(1, 700)})
	if err != nil {
		t.Fatal(err)
	}
	image, err = encodeImage(img.sections.Image)
	if err != nil {
		t.Fatal(err)
	}
	return meta, image
}
