package layer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// TestSeekTableBySpecification reads a blob as contrib/seekable_format/
// zstd_seekable_compression_format.md of zstd says, version 0.1.0, from the
// last byte backwards, and decodes each frame alone with libzstd.
func TestSeekTableBySpecification(t *testing.T) {
	for name, m := range map[string]made{
		"layer":       write(t, blocktest.NewLayer(1, block.MinSize, 3*block.MinSize+9).Stream, block.MinSize, Sections{Index: []byte("i")}),
		"index layer": writeImage(t),
	} {
		le := binary.LittleEndian
		foot := m.blob[len(m.blob)-9:]
		if le.Uint32(foot[5:]) != 0x8F92EAB1 {
			t.Fatalf("%s: Seekable_Magic_Number is %#x", name, le.Uint32(foot[5:]))
		}
		if foot[4] != 0 {
			t.Errorf("%s: Seek_Table_Descriptor is %#x, want 0: no checksums, reserved bits 0", name, foot[4])
		}
		count := int(le.Uint32(foot))
		table := m.blob[len(m.blob)-9-8*count-8:]
		if le.Uint32(table) != 0x184D2A5E || int(le.Uint32(table[4:])) != len(table)-8 {
			t.Fatalf("%s: Skippable_Magic_Number %#x, Frame_Size %d", name, le.Uint32(table), le.Uint32(table[4:]))
		}
		rest, stream := m.blob, []byte{}
		for i := range count {
			compressed, decompressed := int(le.Uint32(table[8+8*i:])), int(le.Uint32(table[12+8*i:]))
			frame := rest[:compressed]
			rest = rest[compressed:]
			skippable := le.Uint32(frame)&^0xf == 0x184D2A50
			if skippable && (le.Uint32(frame) == 0x184D2A5E || decompressed != 0 || int(le.Uint32(frame[4:])) != compressed-8) {
				t.Errorf("%s: frame %d: skippable, magic %#x, entry %d %d", name, i, le.Uint32(frame), compressed, decompressed)
			}
			if !skippable {
				p := pipe(t, frame, "zstd", "-dc")
				if len(p) != decompressed {
					t.Errorf("%s: frame %d decodes to %d bytes, entry says %d", name, i, len(p), decompressed)
				}
				stream = append(stream, p...)
			}
		}
		if len(rest) != len(table) {
			t.Errorf("%s: frames end %d bytes before the seek table", name, len(rest)-len(table))
		}
		if !bytes.Equal(stream, m.stream) {
			t.Errorf("%s: frames do not give the stream", name)
		}
	}
}

// hostileTails are ends of files that have no right seek table.
func hostileTails() map[string][]byte {
	good := appendSeekTable(make([]byte, 10), []seekEntry{{4, 9}, {6, 0}})
	at := func(fromEnd int, b ...byte) []byte { return with(good, len(good)-fromEnd, b...) }
	return map[string][]byte{
		"empty":                    nil,
		"16 bytes":                 good[len(good)-16:],
		"footer magic":             at(1, 0),
		"reserved bits":            at(5, 4),
		"checksums, no room":       at(5, 0x80),
		"0 frames":                 at(9, 0),
		"1 frame":                  at(9, 1),
		"3 frames":                 at(9, 3),
		"2^32-1 frames":            at(9, 0xff, 0xff, 0xff, 0xff),
		"2^27 frames":              at(9, 0, 0, 0, 8),
		"frame magic":              at(33, 0x5d),
		"frame size 0":             at(29, 0, 0, 0, 0),
		"frame size 2^32-1":        at(29, 0xff, 0xff, 0xff, 0xff),
		"frames beyond the file":   appendSeekTable(nil, []seekEntry{{math.MaxUint32, math.MaxUint32}, {math.MaxUint32, 0}}),
		"frames end too early":     appendSeekTable(make([]byte, 11), []seekEntry{{4, 9}, {6, 0}}),
		"frames end in the table":  appendSeekTable(make([]byte, 9), []seekEntry{{4, 9}, {6, 0}}),
		"truncated by one byte":    good[:len(good)-1],
		"a million frames claimed": append(make([]byte, 100), good[len(good)-9], 0, 0x10, 0, 0, 0xb1, 0xea, 0x92, 0x8f),
	}
}

func TestSE06_HostileSeekTable(t *testing.T) {
	for name, p := range hostileTails() {
		var err error
		n := allocated(func() { _, err = ReadSeekTable(bytes.NewReader(p), int64(len(p))) })
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: got %v, want ErrInvalidArgument", name, err)
		}
		if n > 1<<20 {
			t.Errorf("%s: allocated %d bytes", name, n)
		}
		if _, err := Find(bytes.NewReader(p), int64(len(p)), "x"); !errdefs.IsNotFound(err) {
			t.Errorf("%s: Find gives %v, want ErrNotFound", name, err)
		}
	}
}

// TestSeekTableWithChecksums reads what other writers of the format make.
func TestSeekTableWithChecksums(t *testing.T) {
	le := binary.LittleEndian
	p := append(make([]byte, 7), le.AppendUint32(nil, seekMagic)...)
	p = le.AppendUint32(p, 12+seekFooter)
	p = le.AppendUint32(le.AppendUint32(le.AppendUint32(p, 7), 100), 0xdeadbeef)
	p = le.AppendUint32(append(le.AppendUint32(p, 1), 0x80), footerMagic)
	frames, err := ReadSeekTable(bytes.NewReader(p), int64(len(p)))
	if err != nil || len(frames) != 1 || frames[0] != (Frame{Size: 7, Length: 100}) {
		t.Errorf("got %+v, %v", frames, err)
	}
	if _, err := Find(bytes.NewReader(p), int64(len(p)), "x"); !errdefs.IsNotFound(err) {
		t.Errorf("Find gives %v, want ErrNotFound: no metadata", err)
	}
}

// readerAt makes a ReaderAt of a function.
type readerAt func(p []byte, off int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

func TestFindPassesErrorsOn(t *testing.T) {
	m := writeImage(t)
	broken := readerAt(func([]byte, int64) (int, error) { return 0, iotest.ErrTimeout })
	if _, err := Find(broken, m.info.Size, m.info.Digest); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("got %v, want the reader's error", err)
	}
	// The file is shorter than it was said to be.
	if _, err := Find(bytes.NewReader(m.blob), m.info.Size+1, m.info.Digest); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestChecksFindDisagreement(t *testing.T) {
	m := write(t, blocktest.Text(1, 3*block.MinSize), block.MinSize, Sections{Index: []byte("i")})
	good, err := ReadSeekTable(bytes.NewReader(m.blob), m.info.Size)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, change := range []func(*Frame){
			func(f *Frame) { f.Offset++ }, func(f *Frame) { f.Size-- }, func(f *Frame) { f.Start++ }, func(f *Frame) { f.Length-- },
		} {
			frames := append([]Frame(nil), good...)
			change(&frames[i])
			if err := m.info.CheckSeekTable(frames, m.table); !errdefs.IsInvalidArgument(err) {
				t.Errorf("frame %d is %+v: got %v, want ErrInvalidArgument", i, frames[i], err)
			}
		}
	}
	if err := m.info.CheckSeekTable(good[1:], m.table); !errdefs.IsInvalidArgument(err) {
		t.Errorf("one frame is missing: got %v, want ErrInvalidArgument", err)
	}
	other := write(t, blocktest.Text(2, 2*block.MinSize), block.MinSize, Sections{})
	if err := m.info.CheckTable(other.table); !errdefs.IsInvalidArgument(err) {
		t.Errorf("table of another layer: got %v, want ErrInvalidArgument", err)
	}
}

func FuzzSeekTable(f *testing.F) {
	for _, p := range hostileTails() {
		f.Add(p)
	}
	f.Add(appendSeekTable(make([]byte, 10), []seekEntry{{4, 9}, {6, 0}}))
	f.Add(writeImage(f).blob)
	f.Fuzz(func(t *testing.T, p []byte) {
		size := int64(len(p))
		frames, err := ReadSeekTable(bytes.NewReader(p), size)
		if err != nil {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("got %v, want ErrInvalidArgument", err)
			}
			return
		}
		var next, content int64
		for i, f := range frames {
			if f.Offset != next || f.Start != content || f.Size < 0 || f.Length < 0 {
				t.Fatalf("frame %d: %+v", i, f)
			}
			next, content = next+f.Size, content+f.Length
		}
		if next > size {
			t.Errorf("frames of %d bytes in a file of %d", next, size)
		}
		i, err := Find(bytes.NewReader(p), size, sumA)
		if err != nil {
			if !errdefs.IsNotFound(err) && !errdefs.IsNotImplemented(err) {
				t.Errorf("Find gives %v", err)
			}
			return
		}
		if err := i.Meta.Verify(p[i.Meta.Offset:][:i.Meta.Size]); err != nil {
			t.Error(err)
		}
	})
}
