package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// Layer verifies one converted layer: all that can be said without the other
// layers and the config.
func (v *Verifier) Layer(ctx context.Context, l Layer) (*checked, error) {
	if c, ok := v.layers[l.Descriptor.Digest]; ok {
		return c, nil
	}
	ra, err := v.Provider.ReaderAt(ctx, l.Descriptor)
	if err != nil {
		return &checked{}, v.stopped(ctx, fmt.Errorf("layer %s: %w", l.Descriptor.Digest, err))
	}
	defer ra.Close()
	where := "layer " + l.Descriptor.Digest.String()
	v.seekTable(where, l, ra)
	c, err := v.read(ctx, where, l, ra)
	if err != nil {
		return nil, err
	}
	if c.tree != nil {
		v.sameIndex(where, c.tree, l.Meta.Index, []int64{l.Meta.Table.Length()})
	}
	if v.layers == nil {
		v.layers = make(map[digest.Digest]*checked)
	}
	v.layers[l.Descriptor.Digest] = c
	if v.Done != nil {
		v.Done(l.Descriptor)
	}
	return c, nil
}

// seekTable holds the seek table against the block table.
func (v *Verifier) seekTable(where string, l Layer, ra content.ReaderAt) {
	frames, err := layer.ReadSeekTable(ra, l.Descriptor.Size)
	if err != nil {
		v.Report(fmt.Sprintf("%s: %v", where, err))
		return
	}
	if err := l.Info.CheckSeekTable(frames, l.Meta.Table); err != nil {
		v.Report(err.Error())
	}
}

// read reads the blob front to back.
func (v *Verifier) read(ctx context.Context, where string, l Layer, ra content.ReaderAt) (*checked, error) {
	var (
		all    = sha256.New()
		tar    = sha256.New()
		blob   = io.TeeReader(io.NewSectionReader(ra, 0, l.Descriptor.Size), all)
		pr, pw = io.Pipe()
		trees  = make(chan indexed, 1)
	)
	go func() { trees <- readIndex(pr) }()
	good, err := v.blocks(ctx, where, l, blob, io.MultiWriter(tar, pw))
	if err == nil {
		_, err = io.Copy(io.Discard, blob)
	}
	end := err // nil is the end of the stream
	if !good {
		end = errBroken
	}
	pw.CloseWithError(end)
	tree := <-trees
	if err != nil {
		return &checked{}, v.stopped(ctx, fmt.Errorf("%s: %w", where, err))
	}
	if got := digest.NewDigest(digest.SHA256, all); got != l.Descriptor.Digest {
		v.Report(fmt.Sprintf("%s: blob has digest %s", where, got))
	}
	if !good {
		return &checked{}, nil
	}
	if tree.err != nil {
		v.Report(fmt.Sprintf("%s: tar stream: %v", where, tree.err))
	}
	return &checked{diffID: digest.NewDigest(digest.SHA256, tar), tree: tree.Tree}, nil
}

// errBroken ends a tar stream that cannot be read to its end.
var errBroken = errors.New("broken block")

// blocks reads and checks every block and writes the tar stream to out. It says
// whether all of it was good.
func (v *Verifier) blocks(ctx context.Context, where string, l Layer, blob io.Reader, out io.Writer) (bool, error) {
	good := true
	decoder := block.NewDecoder()
	var frame, data []byte
	for i := range l.Meta.Table.Len() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ref := l.Meta.Table.Ref(l.Descriptor.Digest, i)
		frame = slices.Grow(frame[:0], ref.Size)[:ref.Size]
		if _, err := io.ReadFull(blob, frame); err != nil {
			return false, fmt.Errorf("block %d: %w", i, err)
		}
		_, n := l.Meta.Table.Span(i)
		err := ref.Verify(frame)
		if err == nil {
			data, err = decoder.Decode(data[:0], frame, n)
		}
		if err != nil {
			v.Report(fmt.Sprintf("%s: block %d: %v", where, i, err))
			good = false
		}
		if good {
			if _, err := out.Write(data); err != nil {
				return false, err
			}
		}
	}
	return good, nil
}

type indexed struct {
	*index.Tree
	err error
}

// readIndex makes the index of the tar stream that is written into the pipe.
func readIndex(r *io.PipeReader) indexed {
	t, err := index.FromTar(r)
	_, _ = io.Copy(io.Discard, r) // a writer into a pipe that nobody reads hangs
	return indexed{t, err}
}
