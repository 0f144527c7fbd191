// Package blocktest has the conformance suite for block.Source, fakes that
// pass it, wrappers that break it on purpose, and makers of blocks.
package blocktest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Open returns a fresh, empty Source and a function that makes it have a
// block. It registers its own clean-up with t.
type Open func(t *testing.T) (src block.Source, put func(block.Ref, []byte))

// Test checks that the sources that open returns keep the contract of
// block.Source. It must pass under -race.
func Test(t *testing.T, open Open) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"reads every block", testRead},
		{"appends to dst", testAppend},
		{"caller owns the result", testOwner},
		{"same bytes in two layers", testShared},
		{"sections", testSection},
		{"not found", testNotFound},
		{"ended context", testContext},
		{"concurrent readers", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// full opens a source that has every block of l.
func full(t *testing.T, open Open, l *Layer) block.Source {
	t.Helper()
	src, put := open(t)
	l.Each(func(ref block.Ref, frame []byte) { put(ref, bytes.Clone(frame)) })
	return src
}

// read fails the test unless src has exactly frame for ref.
func read(t *testing.T, src block.Source, ref block.Ref, frame []byte) {
	t.Helper()
	got, err := src.ReadBlock(t.Context(), ref, nil)
	if err != nil {
		t.Errorf("%v: %v", ref, err)
	} else if !bytes.Equal(got, frame) {
		t.Errorf("%v: got %d bytes that differ from the %d put", ref, len(got), len(frame))
	}
}

func testRead(t *testing.T, open Open) {
	l := NewLayer(1, block.MinSize, 9*block.MinSize+1) // the last block has one byte
	src := full(t, open, l)
	l.Each(func(ref block.Ref, frame []byte) { read(t, src, ref, frame) })
	l.Each(func(ref block.Ref, frame []byte) { read(t, src, ref, frame) }) // and again
}

func testAppend(t *testing.T, open Open) {
	l := NewLayer(2, block.DefaultSize, 2*block.DefaultSize)
	src := full(t, open, l)
	for _, spare := range []int{0, 1, 2 * block.DefaultSize} {
		dst := append(make([]byte, 0, 3+spare), "abc"...)
		got, err := src.ReadBlock(t.Context(), l.Ref(1), dst)
		if err != nil {
			t.Fatal(err)
		}
		if want := append([]byte("abc"), l.Frame(1)...); !bytes.Equal(got, want) {
			t.Errorf("%d bytes of spare capacity: got %d bytes, want %d: dst and the block", spare, len(got), len(want))
		}
	}
}

func testOwner(t *testing.T, open Open) {
	l := NewLayer(3, block.MinSize, block.MinSize)
	src := full(t, open, l)
	got, err := src.ReadBlock(t.Context(), l.Ref(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	read(t, src, l.Ref(0), l.Frame(0))
}

func testShared(t *testing.T, open Open) {
	l := NewLayer(4, block.MinSize, 2*block.MinSize)
	src, put := open(t)
	a, b := l.Ref(1), l.Ref(1)
	b.Blob, b.Number, b.Offset = Digest([]byte("another layer")), 7, 12345
	put(a, bytes.Clone(l.Frame(1)))
	put(b, bytes.Clone(l.Frame(1)))
	read(t, src, a, l.Frame(1))
	read(t, src, b, l.Frame(1))
}

func testSection(t *testing.T, open Open) {
	src, put := open(t)
	p := Random(5, 100_000)
	ref := SectionRef(Digest([]byte("layer")), 4711, p)
	put(ref, bytes.Clone(p))
	read(t, src, ref, p)
}

func testNotFound(t *testing.T, open Open) {
	src := full(t, open, NewLayer(6, block.MinSize, block.MinSize))
	dst := []byte("abc")
	got, err := src.ReadBlock(t.Context(), NewLayer(7, block.MinSize, block.MinSize).Ref(0), dst)
	if !errdefs.IsNotFound(err) {
		t.Errorf("got error %v, want errdefs.ErrNotFound", err)
	}
	if len(got) != len(dst) {
		t.Errorf("got %d bytes with an error, want dst with its %d", len(got), len(dst))
	}
}

// testContext lets a source answer at once, as a local one may, but no other
// error than the context's.
func testContext(t *testing.T, open Open) {
	l := NewLayer(8, block.MinSize, block.MinSize)
	src := full(t, open, l)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := src.ReadBlock(ctx, l.Ref(0), []byte("abc"))
	switch {
	case err == nil && !bytes.Equal(got, append([]byte("abc"), l.Frame(0)...)):
		t.Error("no error, but not the block")
	case err != nil && !errors.Is(err, context.Canceled):
		t.Errorf("got error %v, want context.Canceled", err)
	case err != nil && len(got) != 3:
		t.Errorf("got %d bytes with an error, want dst with its 3", len(got))
	}
}

func testConcurrent(t *testing.T, open Open) {
	l := NewLayer(9, block.MinSize, 16*block.MinSize)
	src := full(t, open, l)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l.Each(func(ref block.Ref, frame []byte) { read(t, src, ref, frame) })
		})
	}
	wg.Wait()
}
