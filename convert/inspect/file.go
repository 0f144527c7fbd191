package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// Bounds of what a Reader keeps, blocks and their bytes.
const (
	keptBlocks = 64
	keptBytes  = 16 << 20
)

// Reader reads files of an image block by block. It keeps the last blocks: files
// lie in the order of the tar stream. It is not safe for concurrent use.
type Reader struct {
	blobs   block.Source
	devices []layer.ImageLayer
	decoder *block.Decoder
	frame   []byte
	kept    []decoded // the last one was used last
	bytes   int       // of kept
}

// decoded is a block of a device.
type decoded struct {
	device, number int
	data           []byte
}

// NewReader reads files of trees with these devices.
func NewReader(blobs block.Source, devices []layer.ImageLayer) *Reader {
	return &Reader{blobs: blobs, devices: devices, decoder: block.NewDecoder()}
}

// Copy writes the content of a regular file to w.
func (r *Reader) Copy(ctx context.Context, w io.Writer, f index.File) error {
	if !f.IsRegular() {
		return fmt.Errorf("%s is not a regular file: %w", f.Path, errdefs.ErrInvalidArgument)
	}
	var at int64
	for _, run := range f.Ranges() {
		if err := zeros(w, run.Logical-at); err != nil {
			return err
		}
		if err := r.copyRange(ctx, w, run); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		at = run.Logical + run.Size
	}
	return zeros(w, f.Size-at)
}

func (r *Reader) copyRange(ctx context.Context, w io.Writer, run index.Range) error {
	if run.Device < 0 || run.Device >= len(r.devices) {
		return fmt.Errorf("device %d of %d: %w", run.Device, len(r.devices), errdefs.ErrDataLoss)
	}
	table := r.devices[run.Device].Table
	for off, end := run.Offset, run.Offset+run.Size; off < end; {
		i := int(off / int64(table.BlockSize()))
		if i >= table.Len() {
			return fmt.Errorf("byte %d of a tar stream of %d: %w", off, table.Length(), errdefs.ErrDataLoss)
		}
		data, err := r.block(ctx, run.Device, i)
		if err != nil {
			return err
		}
		start, _ := table.Span(i)
		data = data[off-start:]
		data = data[:min(int64(len(data)), end-off)]
		if len(data) == 0 {
			return fmt.Errorf("byte %d of a tar stream of %d: %w", off, table.Length(), errdefs.ErrDataLoss)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		off += int64(len(data))
	}
	return nil
}

// block reads, verifies and decodes one block, unless it is kept.
func (r *Reader) block(ctx context.Context, device, i int) ([]byte, error) {
	at := slices.IndexFunc(r.kept, func(d decoded) bool { return d.device == device && d.number == i })
	if at >= 0 {
		d := r.kept[at]
		r.kept = append(slices.Delete(r.kept, at, at+1), d)
		return d.data, nil
	}
	l := r.devices[device]
	ref := l.Table.Ref(l.Digest, i)
	frame, err := r.blobs.ReadBlock(ctx, ref, r.frame[:0])
	if err != nil {
		return nil, err
	}
	r.frame = frame
	if err := ref.Verify(frame); err != nil {
		return nil, err
	}
	_, n := l.Table.Span(i)
	data, err := r.decoder.Decode(r.room(n), frame, n)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", ref, err)
	}
	r.kept, r.bytes = append(r.kept, decoded{device, i, data}), r.bytes+n
	return data, nil
}

// room makes room for a block of n bytes, and returns the memory of one that is
// no longer kept, if there is one.
func (r *Reader) room(n int) (free []byte) {
	for len(r.kept) > 0 && (len(r.kept) >= keptBlocks || r.bytes+n > keptBytes) {
		free = r.kept[0].data[:0]
		r.bytes -= len(r.kept[0].data)
		r.kept = slices.Delete(r.kept, 0, 1)
	}
	return free
}

func zeros(w io.Writer, n int64) error {
	var page [4096]byte
	for n > 0 {
		m := min(n, int64(len(page)))
		if _, err := w.Write(page[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}
