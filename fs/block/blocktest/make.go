package blocktest

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Random returns n bytes that do not compress, the same for the same seed.
func Random(seed uint64, n int) []byte {
	p := make([]byte, n)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	rand.NewChaCha8(key).Read(p) // never fails
	return p
}

// Text returns n bytes that compress to about a third, the same for the same
// seed.
func Text(seed uint64, n int) []byte {
	words := [...]string{"block ", "layer ", "index ", "tree\n", "root ", "the ", "of ", "a "}
	r := rand.New(rand.NewPCG(seed, 0))
	p := make([]byte, 0, n+16)
	for len(p) < n {
		p = append(p, words[r.IntN(len(words))]...)
		p = append(p, byte('a'+r.IntN(26)))
	}
	return p[:n]
}

// Digest returns the SHA-256 digest of p.
func Digest(p []byte) digest.Digest {
	return digest.FromBytes(p)
}

// SectionRef names p as a section at offset of blob.
func SectionRef(blob digest.Digest, offset int64, p []byte) block.Ref {
	return block.Ref{Blob: blob, Number: block.Section, Offset: offset, Size: len(p), Sum: sha256.Sum256(p)}
}

// Layer is a layer of random content: a tar stream, which is not really a tar,
// its blocks and its table. It is immutable.
type Layer struct {
	Stream []byte        // uncompressed
	Blob   []byte        // the frames of all blocks, one behind the other
	Digest digest.Digest // of Blob
	Table  *block.Table
}

// NewLayer returns a layer of length bytes in blocks of blockSize, the same
// for the same arguments. Even blocks compress, odd ones do not. It panics on
// arguments that block.NewTable refuses.
func NewLayer(seed uint64, blockSize int, length int) *Layer {
	l := &Layer{Stream: make([]byte, 0, length)}
	for i := 0; len(l.Stream) < length; i++ {
		n := min(blockSize, length-len(l.Stream))
		part := uint64(i)<<32 ^ seed
		if i%2 == 0 {
			l.Stream = append(l.Stream, Text(part, n)...)
		} else {
			l.Stream = append(l.Stream, Random(part, n)...)
		}
	}
	return Cut(l.Stream, blockSize)
}

// Cut returns the layer that has stream, which it keeps, as content.
func Cut(stream []byte, blockSize int) *Layer {
	l := &Layer{Stream: stream}
	enc, err := block.NewEncoder(block.LevelFastest, blockSize)
	if err != nil {
		panic(err)
	}
	var entries []block.Entry
	for off := 0; off < len(stream); off += blockSize {
		start := len(l.Blob)
		l.Blob = enc.Encode(l.Blob, stream[off:min(off+blockSize, len(stream))])
		frame := l.Blob[start:]
		entries = append(entries, block.Entry{Size: uint32(len(frame)), Sum: sha256.Sum256(frame)})
	}
	if l.Table, err = block.NewTable(blockSize, int64(len(stream)), entries); err != nil {
		panic(err)
	}
	l.Digest = Digest(l.Blob)
	return l
}

// Ref names block i.
func (l *Layer) Ref(i int) block.Ref { return l.Table.Ref(l.Digest, i) }

// Frame returns the compressed bytes of block i, a part of Blob.
func (l *Layer) Frame(i int) []byte {
	r := l.Ref(i)
	return l.Blob[r.Offset:][:r.Size:r.Size]
}

// Block returns the uncompressed bytes of block i, a part of Stream.
func (l *Layer) Block(i int) []byte {
	off, n := l.Table.Span(i)
	return l.Stream[off:][:n:n]
}

// Each calls f for every block in order.
func (l *Layer) Each(f func(ref block.Ref, frame []byte)) {
	for i := range l.Table.Len() {
		f(l.Ref(i), l.Frame(i))
	}
}

// Source returns a Memory that has every block.
func (l *Layer) Source() *Memory {
	m := &Memory{}
	l.Each(m.Put)
	return m
}
