package fetch

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

const benchSize = 512 << 10

func benchLayer(b *testing.B, o store.Options, fo Options) (*Fetcher, *Layer, *blocktest.Layer) {
	b.Helper()
	s, err := store.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	of := blocktest.NewLayer(1, benchSize, 64*benchSize)
	f, err := New(s, only(of.Source()), fo)
	if err != nil {
		b.Fatal(err)
	}
	l, err := f.Layer(of.Digest, of.Table)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close(); f.Close(); s.Close() })
	return f, l, of
}

// A view of what is there: the path of every warm FUSE read.
func BenchmarkViewHit(b *testing.B) {
	_, l, _ := benchLayer(b, store.Options{}, Options{})
	for off := int64(0); off < l.Size(); off += MaxView {
		s, err := l.View(b.Context(), off, MaxView)
		if err != nil {
			b.Fatal(err)
		}
		s.Done()
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := int64(0); pb.Next(); i++ {
			s, err := l.View(b.Context(), i*(128<<10)%l.Size(), 128<<10)
			if err != nil {
				b.Fatal(err)
			}
			s.Done()
		}
	})
}

// A view of a block that is in the store: read, decode, write, pin.
func BenchmarkViewDecode(b *testing.B) {
	f, l, of := benchLayer(b, store.Options{MaxFlatBytes: 2 * benchSize}, Options{ReadAhead: -1})
	of.Each(func(ref block.Ref, frame []byte) {
		if err := f.store.Put(b.Context(), ref, frame); err != nil {
			b.Fatal(err)
		}
	})
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s, err := l.View(b.Context(), int64(i%64)*benchSize, 128<<10)
		if err != nil {
			b.Fatal(err)
		}
		s.Done()
	}
}

// A block from the origin: verify, share, keep.
func BenchmarkReadBlock(b *testing.B) {
	f, _, of := benchLayer(b, store.Options{MaxBytes: 4 * benchSize}, Options{})
	b.SetBytes(benchSize)
	b.ReportAllocs()
	buf := make([]byte, 0, 2*benchSize)
	for i := 0; b.Loop(); i++ {
		if _, err := f.ReadBlock(b.Context(), of.Ref(i*2%64+1), buf); err != nil {
			b.Fatal(err)
		}
	}
}

// A whole layer from the origin to a complete flat file.
func BenchmarkFill(b *testing.B) {
	f, first, of := benchLayer(b, store.Options{}, Options{})
	first.Close()
	b.SetBytes(int64(len(of.Stream)))
	for b.Loop() {
		if err := f.store.Retain(func(digest.Digest) bool { return false }); err != nil {
			b.Fatal(err)
		}
		l, err := f.Layer(of.Digest, of.Table)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.fill(b.Context()); err != nil || !l.Complete() {
			b.Fatal("not filled", err)
		}
		l.Close()
	}
}
