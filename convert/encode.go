package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// encoded is a layer file that was written.
type encoded struct {
	info   layer.Info
	diffID digest.Digest
	table  *block.Table
}

// encode reads the blob of a layer once and writes the layer file to w.
func (c *Converter) encode(ctx context.Context, blob *blobReader, w io.Writer) (encoded, error) {
	tar, err := decompress(blob)
	if err != nil {
		return encoded{}, blob.fail(err)
	}
	defer tar.Close()
	work := c.work
	if isStartLayer(blob.desc) {
		if work, err = c.harder(); err != nil {
			return encoded{}, err
		}
	}
	return c.encodeTar(ctx, work, "layer "+blob.desc.Digest.String(), &tarReader{tar, blob}, blob.drain, w)
}

// encodeTar reads a tar stream once and writes the layer file of it to w. On the
// way each block of the stream goes to three places: the digest, the index and
// the compressor. end is called when the stream is at its end.
func (c *Converter) encodeTar(ctx context.Context, work *squeezer, what string, tar io.Reader, end func() error, w io.Writer) (encoded, error) {
	var (
		sum    = sha256.New()
		size   int64
		out    = layer.NewWriter(w, c.o.BlockSize)
		pr, pw = io.Pipe()
		trees  = make(chan indexed, 1)
	)
	go func() { trees <- readIndex(pr) }()
	err := work.run(ctx, tar, func(raw []byte) error {
		sum.Write(raw)
		size += int64(len(raw))
		if _, err := pw.Write(raw); err != nil {
			return errIndex
		}
		return nil
	}, out.WriteBlock)
	pw.CloseWithError(err) // nil is the end of the stream
	tree := <-trees
	if err != nil && !errors.Is(err, errIndex) {
		return encoded{}, err
	}
	if tree.err != nil {
		return encoded{}, fmt.Errorf("%s: index: %w", what, tree.err)
	}
	if err := end(); err != nil {
		return encoded{}, err
	}
	img, err := tree.Encode([]int64{size})
	if err != nil {
		return encoded{}, fmt.Errorf("%s: index: %w", what, err)
	}
	info, err := out.Close(layer.Sections{Index: img})
	if err != nil {
		return encoded{}, fmt.Errorf("%s: new blob: %w", what, err)
	}
	return encoded{info: info, diffID: digest.NewDigest(digest.SHA256, sum), table: out.Table()}, nil
}

// errIndex ends the reading of a tar stream whose index failed.
var errIndex = errors.New("index failed")

type indexed struct {
	*index.Tree
	err error
}

// readIndex makes the index of the tar stream that is written into the pipe.
func readIndex(r *io.PipeReader) indexed {
	t, err := index.FromTar(r)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // a writer into a pipe that nobody reads hangs
	}
	r.CloseWithError(err)
	return indexed{t, err}
}

// tarReader is the tar stream of a blob: its errors tell of the blob first.
type tarReader struct {
	tar  io.Reader
	blob *blobReader
}

func (t *tarReader) Read(p []byte) (int, error) {
	n, err := t.tar.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = t.blob.fail(err)
	}
	return n, err
}
