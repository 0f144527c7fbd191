package wires

import (
	"crypto/sha256"
	"math/rand/v2"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

const blockSize = 512 << 10

// Load is the layer that is relayed: random bytes, which do not compress. It is
// the same in every process.
type Load struct {
	blob    digest.Digest
	table   *block.Table
	encoder *block.Encoder
}

// NewLoad returns a layer of so many blocks of 512 KiB.
func NewLoad(blocks int) (*Load, error) {
	encoder, err := block.NewEncoder(block.Level(0), blockSize)
	if err != nil {
		return nil, err
	}
	l := &Load{blob: digest.FromString("relayed"), encoder: encoder}
	var entries []block.Entry
	for i := range blocks {
		frame := l.frame(i)
		entries = append(entries, block.Entry{Size: uint32(len(frame)), Sum: sha256.Sum256(frame)})
	}
	l.table, err = block.NewTable(blockSize, int64(blocks)*blockSize, entries)
	return l, err
}

// Bytes is what is relayed to each VM.
func (l *Load) Bytes() int64 { return l.table.Bytes() }

func (l *Load) frame(i int) []byte {
	p := make([]byte, blockSize)
	rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(p)
	return l.encoder.Encode(nil, p)
}

func (l *Load) ref(i int) block.Ref { return l.table.Ref(l.blob, i) }

func (l *Load) each(f func(block.Ref, []byte) error) error {
	for i := range l.table.Len() {
		if err := f(l.ref(i), l.frame(i)); err != nil {
			return err
		}
	}
	return nil
}
