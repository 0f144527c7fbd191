package layer

import (
	"bytes"
	"os/exec"
	"runtime"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// made is a layer file and what went into it.
type made struct {
	blob     []byte
	info     Info
	stream   []byte
	sections Sections
	table    *block.Table
}

// write makes the layer file of stream.
func write(t testing.TB, stream []byte, blockSize int, s Sections) made {
	t.Helper()
	enc, err := block.NewEncoder(block.LevelDefault, blockSize)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := NewWriter(&b, blockSize)
	var frame []byte
	for off := 0; off < len(stream); off += blockSize {
		p := stream[off:min(off+blockSize, len(stream))]
		frame = enc.Encode(frame[:0], p)
		if err := w.WriteBlock(frame, len(p)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close(s)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != int64(b.Len()) || info.Digest != digest.FromBytes(b.Bytes()) {
		t.Fatalf("Close says %d bytes, %s; it wrote %d, %s", info.Size, info.Digest, b.Len(), digest.FromBytes(b.Bytes()))
	}
	return made{b.Bytes(), info, stream, s, w.Table()}
}

// section returns the bytes that ref names, verified.
func (m made) section(t testing.TB, ref block.Ref) []byte {
	t.Helper()
	if ref.Number != block.Section || ref.Blob != m.info.Digest {
		t.Errorf("%+v names no section of %s", ref, m.info.Digest)
	}
	p := m.blob[ref.Offset:][:ref.Size]
	if err := ref.Verify(p); err != nil {
		t.Error(err)
	}
	return p
}

// entry returns what an image section says of m.
func (m made) entry() ImageLayer {
	return ImageLayer{Digest: m.info.Digest, Size: m.info.Size, DiffID: digest.FromBytes(m.stream), Table: m.table}
}

// writeImage makes an index layer over a few layers.
func writeImage(t testing.TB) made {
	t.Helper()
	img := &Image{Index: blocktest.Text(3, 5000)}
	for i := range 3 {
		img.Layers = append(img.Layers, write(t, blocktest.Text(uint64(i), i*5000), block.MinSize, Sections{}).entry())
	}
	return write(t, nil, block.DefaultSize, Sections{Index: []byte("index of nothing"), Image: img})
}

// sameTable fails the test unless a and b say the same.
func sameTable(t testing.TB, a, b *block.Table) {
	t.Helper()
	x, _ := a.AppendBinary(nil)
	y, _ := b.AppendBinary(nil)
	if !bytes.Equal(x, y) {
		t.Errorf("tables differ: %x, %x", x, y)
	}
}

// pipe returns what the command makes of in.
func pipe(t testing.TB, in []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, stderr.Bytes())
	}
	return out
}

// allocated returns the bytes that f allocates, live or not.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}
