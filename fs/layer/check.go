package layer

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// CheckTable checks that the blocks of t end exactly where the metadata
// section begins. Whoever parses a Meta calls it before following an offset of
// its table. The error matches errdefs.ErrInvalidArgument.
func (i Info) CheckTable(t *block.Table) error {
	end := t.Bytes()
	if t.Len() == 0 {
		end = int64(len(block.EmptyFrame))
	}
	if end != i.Meta.Offset {
		return fmt.Errorf("layer %s: blocks end at %d, metadata begins at %d: %w", i.Digest, end, i.Meta.Offset, errdefs.ErrInvalidArgument)
	}
	return nil
}

// CheckSeekTable checks that the seek table of a layer says the same as its
// block table and annotations. The error matches errdefs.ErrInvalidArgument.
func (i Info) CheckSeekTable(frames []Frame, t *block.Table) error {
	var want []Frame
	for n := range t.Len() {
		ref := t.Ref(i.Digest, n)
		off, length := t.Span(n)
		want = append(want, Frame{Offset: ref.Offset, Size: int64(ref.Size), Start: off, Length: int64(length)})
	}
	if t.Len() == 0 {
		want = append(want, Frame{Size: int64(len(block.EmptyFrame))})
	}
	want = append(want, Frame{Offset: i.Meta.Offset, Size: int64(i.Meta.Size), Start: t.Length()})
	if i.Image != nil {
		want = append(want, Frame{Offset: i.Image.Offset, Size: int64(i.Image.Size), Start: t.Length()})
	}
	if len(frames) != len(want) {
		return fmt.Errorf("layer %s: seek table of %d frames, want %d: %w", i.Digest, len(frames), len(want), errdefs.ErrInvalidArgument)
	}
	for n, f := range frames {
		if f != want[n] {
			return fmt.Errorf("layer %s: frame %d is %+v in the seek table, want %+v: %w", i.Digest, n, f, want[n], errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// Find says what a layer file is that comes without annotations: it looks the
// sections up in the seek table. r has size bytes, and blob is their digest by
// the caller's word. The sums of the sections are computed from r, so they
// prove nothing. The error matches errdefs.ErrNotFound when the file is not of
// this format.
func Find(r io.ReaderAt, size int64, blob digest.Digest) (Info, error) {
	frames, err := ReadSeekTable(r, size)
	if err != nil {
		return Info{}, notOurs(err)
	}
	i := Info{Version: Version, Digest: blob, Size: size}
	for n := len(frames) - 1; n >= 0 && frames[n].Length == 0; n-- {
		ref, k, err := readSection(r, frames[n])
		if err != nil {
			return Info{}, notOurs(err)
		}
		ref.Blob = blob
		switch k {
		case kindImage:
			i.Image = &ref
		case kindMeta:
			i.Meta = ref
			return i, nil
		}
	}
	return Info{}, fmt.Errorf("no metadata section in the seek table: %w", errdefs.ErrNotFound)
}

// notOurs makes a file that is malformed one that is not of this format: Find
// has no annotation that says it is. Errors of reading stay what they are.
func notOurs(err error) error {
	if errdefs.IsInvalidArgument(err) {
		return fmt.Errorf("%v: %w", err, errdefs.ErrNotFound) //nolint:errorlint // it changes the class
	}
	return err
}

// readSection reads the section in frame f; kind 0 is a frame that is
// too short or too long to be one.
func readSection(r io.ReaderAt, f Frame) (block.Ref, kind, error) {
	if f.Size < sectionPrefix || f.Size > block.MaxSection {
		return block.Ref{}, 0, nil
	}
	p := make([]byte, sectionPrefix)
	if err := readFull(r, p, f.Offset); err != nil {
		return block.Ref{}, 0, err
	}
	h, err := parseHeader(p)
	if err != nil {
		return block.Ref{}, 0, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, f.Offset, f.Size)); err != nil {
		return block.Ref{}, 0, err
	}
	ref := block.Ref{Number: block.Section, Offset: f.Offset, Size: int(f.Size), Sum: block.Sum(sum.Sum(nil))}
	return ref, h.kind, nil
}
