package block_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

func TestTable(t *testing.T) {
	l := blocktest.NewLayer(1, block.MinSize, 5*block.MinSize+3)
	tab := l.Table
	if tab.BlockSize() != block.MinSize || tab.Len() != 6 || tab.Length() != int64(len(l.Stream)) || tab.Bytes() != int64(len(l.Blob)) {
		t.Errorf("table says %d %d %d %d", tab.BlockSize(), tab.Len(), tab.Length(), tab.Bytes())
	}
	var next, content int64
	for i := range tab.Len() {
		r := tab.Ref(l.Digest, i)
		if r.Blob != l.Digest || r.Number != i || r.Offset != next {
			t.Errorf("block %d: ref %+v, want offset %d", i, r, next)
		}
		next += int64(r.Size)
		off, n := tab.Span(i)
		if off != content || (n != block.MinSize && i < 5) || (n != 3 && i == 5) {
			t.Errorf("block %d: span %d+%d", i, off, n)
		}
		content += int64(n)
	}
}

// TestTableRoundTrip is a property test over random tables.
func TestTableRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		size := block.MinSize << r.IntN(11)
		length := r.Int64N(int64(size) * int64(1+r.IntN(100)))
		entries := make([]block.Entry, (length+int64(size)-1)/int64(size))
		for i := range entries {
			n := min(int64(size), length-int64(i)*int64(size))
			entries[i].Size = 1 + uint32(r.IntN(block.MaxFrame(int(n))))
			copy(entries[i].Sum[:], blocktest.Random(r.Uint64(), 32))
		}
		want, err := block.NewTable(size, length, entries)
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.AppendBinary([]byte("front"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := block.ParseTable(b[len("front"):])
		if err != nil {
			t.Fatal(err)
		}
		if got.BlockSize() != size || got.Length() != length || got.Len() != len(entries) || got.Bytes() != want.Bytes() {
			t.Fatalf("got %d %d %d %d", got.BlockSize(), got.Length(), got.Len(), got.Bytes())
		}
		for i := range entries {
			if got.Ref("x", i) != want.Ref("x", i) {
				t.Fatalf("block %d: got %+v, want %+v", i, got.Ref("x", i), want.Ref("x", i))
			}
		}
	}
}

func TestNewTableRefuses(t *testing.T) {
	one := []block.Entry{{Size: 1}}
	for name, c := range map[string]struct {
		blockSize int
		length    int64
		entries   []block.Entry
	}{
		"block size 0":             {0, 1, one},
		"block size not a power":   {5000, 1, one},
		"block size too small":     {block.MinSize / 2, 1, one},
		"block size too large":     {block.MaxSize * 2, 1, one},
		"negative length":          {block.MinSize, -1, nil},
		"largest length":           {block.MinSize, math.MaxInt64, one},
		"more blocks than allowed": {block.MinSize, block.MaxBlocks*block.MinSize + 1, one},
		"no entries":               {block.MinSize, 1, nil},
		"one entry too many":       {block.MinSize, 0, one},
		"empty block":              {block.MinSize, 1, []block.Entry{{}}},
		"block larger than it may": {block.MinSize, 1, []block.Entry{{Size: uint32(block.MaxFrame(1)) + 1}}},
		"largest size":             {block.MinSize, 1, []block.Entry{{Size: math.MaxUint32}}},
	} {
		if _, err := block.NewTable(c.blockSize, c.length, c.entries); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want ErrInvalidArgument", name, err)
		}
	}
}

// rawTable returns a binary table with these numbers, right or wrong.
func rawTable(blockSize, count uint32, length uint64, sizes ...uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, blockSize), count), length)
	for _, s := range sizes {
		b = append(le.AppendUint32(b, s), make([]byte, 32)...)
	}
	return b
}

// hostileTables must be refused.
var hostileTables = map[string][]byte{
	"empty":                     nil,
	"header cut off":            rawTable(block.MinSize, 0, 0)[:15],
	"entry cut off":             rawTable(block.MinSize, 1, 1, 9)[:51],
	"byte behind the end":       append(rawTable(block.MinSize, 1, 1, 9), 0),
	"count 2^32-1":              rawTable(block.MinSize, math.MaxUint32, math.MaxUint32*block.MinSize),
	"count and length disagree": rawTable(block.MinSize, 1, block.MinSize+1, 9),
	"length 2^64-1":             rawTable(block.MinSize, 1, math.MaxUint64, 9),
	"length 2^63-1":             rawTable(block.MinSize, 1, math.MaxInt64, 9),
	"block size 0":              rawTable(0, 1, 1, 9),
	"block size 2^31":           rawTable(1<<31, 1, 1, 9),
	"block size 2^32-1":         rawTable(math.MaxUint32, 1, 1, 9),
	"block of no bytes":         rawTable(block.MinSize, 1, 1, 0),
	"block of 2^32-1 bytes":     rawTable(block.MinSize, 1, 1, math.MaxUint32),
}

func TestSE06_HostileTable(t *testing.T) {
	for name, p := range hostileTables {
		var err error
		n := allocated(func() { _, err = block.ParseTable(p) })
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want ErrInvalidArgument", name, err)
		}
		if n > 1<<20 {
			t.Errorf("%s: allocated %d bytes", name, n)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	for _, p := range hostileTables {
		f.Add(p)
	}
	f.Add(rawTable(block.DefaultSize, 0, 0))
	f.Add(rawTable(block.DefaultSize, 2, block.DefaultSize+1, 4711, 10))
	f.Fuzz(func(t *testing.T, p []byte) {
		tab, err := block.ParseTable(p)
		if err != nil {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("error %v is no ErrInvalidArgument", err)
			}
			return
		}
		if again, err := tab.AppendBinary(nil); err != nil || !bytes.Equal(again, p) {
			t.Errorf("%x parses, but is written as %x (%v)", p, again, err)
		}
		var next, content int64
		for i := range tab.Len() {
			r := tab.Ref("x", i)
			off, n := tab.Span(i)
			if r.Offset != next || r.Size < 1 || off != content || n < 1 || n > tab.BlockSize() || r.Size > block.MaxFrame(n) {
				t.Fatalf("block %d: %+v, span %d+%d", i, r, off, n)
			}
			next, content = next+int64(r.Size), content+int64(n)
		}
		if next != tab.Bytes() || content != tab.Length() {
			t.Errorf("blocks end at %d of %d, %d of %d", next, tab.Bytes(), content, tab.Length())
		}
	})
}
