package convert_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
)

func newStore(t testing.TB, below ...content.InfoReaderProvider) content.Store {
	t.Helper()
	cs, err := endpoint.NewStore(t.TempDir(), below...)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// tarOf makes a tar stream of n files with contents that depend on seed.
func tarOf(seed uint64, n, size int) []byte {
	var tar indextest.Tar
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		tar.Add(indextest.Header{Name: fmt.Sprintf("d%d/f%d", seed, i), Body: string(text(r, size))})
	}
	return tar.Bytes()
}

// text is data that compresses about as well as text does.
func text(r *rand.Rand, n int) []byte {
	const words = "the quick brown fox jumps over a lazy dog and says nothing 0123456789 ETAOIN SHRDLU "
	b := make([]byte, 0, n+16)
	for len(b) < n {
		at := r.IntN(len(words) - 16)
		b = append(b, words[at:at+4+r.IntN(12)]...)
	}
	return b[:n]
}

// untar gives the tar stream of a converted layer as any zstd decoder sees it.
func untar(t testing.TB, cs content.Provider, d ocispec.Descriptor) []byte {
	t.Helper()
	b, err := content.ReadBlob(context.Background(), cs, d)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tar, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return tar
}

// section reads a section of a layer.
func section(t testing.TB, cs content.Provider, d ocispec.Descriptor) (layer.Info, *layer.Meta, *layer.Image) {
	t.Helper()
	info, err := layer.FromLabels(d.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	b, err := content.ReadBlob(context.Background(), cs, d)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := layer.ParseMeta(b[info.Meta.Offset:][:info.Meta.Size])
	if err != nil {
		t.Fatal(err)
	}
	if info.Image == nil {
		return info, meta, nil
	}
	img, err := layer.ParseImage(b[info.Image.Offset:][:info.Image.Size])
	if err != nil {
		t.Fatal(err)
	}
	return info, meta, img
}

// blobs counts the blobs and unfinished blobs of a store.
func blobs(t testing.TB, cs content.Store) int {
	t.Helper()
	n := 0
	if err := cs.Walk(context.Background(), func(content.Info) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	open, err := cs.ListStatuses(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n + len(open)
}
