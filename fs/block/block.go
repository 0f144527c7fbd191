// Package block says what a block is: its name, its sum, where it comes from
// and how it is encoded. It is the vocabulary of the whole product: the local
// store, the registry, a peer and the fetcher are all Sources of blocks.
package block

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// Sizes of a block in bytes of the tar stream, before compression.
const (
	DefaultSize = 512 << 10 // FaaSNet's 512 KiB, paper section 3
	MinSize     = 4 << 10
	MaxSize     = 4 << 20
)

// MaxSection bounds the compressed bytes of a section, in bytes: a section is
// read whole into memory. An index of 500,000 files takes about 8 MiB.
const MaxSection = 64 << 20

// Section is the Number of a Ref that names a metadata or image section
// instead of a block of the tar stream.
const Section = -1

// Sum is the SHA-256 of a block's compressed bytes.
type Sum [sha256.Size]byte

// String returns the sum in lower-case hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Ref names one block and says all that a Source needs to find and check it:
// a registry reads Size bytes at Offset of Blob, a store looks up Sum, a peer
// asks for (Blob, Number).
type Ref struct {
	Blob   digest.Digest // the layer blob that holds it
	Number int           // 0, 1, ... in the layer's block table; Section for a section
	Offset int64         // of the first compressed byte in Blob
	Size   int           // compressed bytes, 1..MaxSection
	Sum    Sum           // of the compressed bytes
}

// String names the block for logs and errors.
func (r Ref) String() string {
	if r.Number == Section {
		return fmt.Sprintf("section %d+%d of %s", r.Offset, r.Size, r.Blob)
	}
	return fmt.Sprintf("block %d of %s", r.Number, r.Blob)
}

// Verify checks that p is exactly the block that r names. The error matches
// errdefs.ErrDataLoss.
func (r Ref) Verify(p []byte) error {
	if len(p) != r.Size {
		return r.Check(len(p), Sum{})
	}
	return r.Check(len(p), sha256.Sum256(p))
}

// Check is Verify for n bytes whose sum was made while they arrived.
func (r Ref) Check(n int, sum Sum) error {
	if n != r.Size {
		return fmt.Errorf("%v: got %d bytes, want %d: %w", r, n, r.Size, errdefs.ErrDataLoss)
	}
	if sum != r.Sum {
		return fmt.Errorf("%v: sha256 is %v, want %v: %w", r, sum, r.Sum, errdefs.ErrDataLoss)
	}
	return nil
}

// Source gives whole blocks, compressed.
//
// ReadBlock appends the compressed bytes of ref to dst and returns the
// extended slice; on error dst is returned unchanged in length. The caller
// owns the result: a Source keeps no reference to it. The bytes have the
// length ref.Size but are not verified unless the implementation says so:
// whoever stores, decodes or believes them calls Ref.Verify first.
//
// Errors: errdefs.ErrNotFound when this source does not have the block and
// will not get it, errdefs.ErrDataLoss when what it has is damaged,
// errdefs.ErrUnavailable when asking again later may help, the context's error
// when ctx ends. A Source is safe for concurrent use and returns soon after
// ctx ends.
type Source interface {
	ReadBlock(ctx context.Context, ref Ref, dst []byte) ([]byte, error)
}

// SourceFunc lets a function be a Source.
type SourceFunc func(ctx context.Context, ref Ref, dst []byte) ([]byte, error)

// ReadBlock calls f.
func (f SourceFunc) ReadBlock(ctx context.Context, ref Ref, dst []byte) ([]byte, error) {
	return f(ctx, ref, dst)
}
