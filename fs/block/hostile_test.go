package block_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

// rleFrame returns a frame that states size bytes and decodes to n times
// 128 KiB: 4 bytes of input for each.
func rleFrame(size uint64, n int) []byte {
	p := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0} // single segment, 8 bytes of content size
	p = binary.LittleEndian.AppendUint64(p, size)
	for i := range n {
		v := 128<<10<<3 | 1<<1
		if i == n-1 {
			v |= 1
		}
		p = append(p, byte(v), byte(v>>8), byte(v>>16), 'x')
	}
	return p
}

// hostile are frames that must not decode to want bytes.
func hostile(t testing.TB) map[string]struct {
	frame []byte
	want  int
} {
	t.Helper()
	good := newEncoder(t, block.LevelDefault, block.DefaultSize).Encode(nil, blocktest.Text(1, 5000))
	with := func(at int, b byte) []byte {
		p := bytes.Clone(good)
		p[at] = b
		return p
	}
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, "abcd"...)
	return map[string]struct {
		frame []byte
		want  int
	}{
		"empty":                              {nil, 0},
		"no frame for a byte":                {nil, 1},
		"magic only":                         {good[:4], 5000},
		"truncated":                          {good[:len(good)-1], 5000},
		"truncated in a block":               {good[:20], 5000},
		"wants less":                         {good, 4999},
		"wants more":                         {good, 5001},
		"negative want":                      {good, -1},
		"two frames":                         {append(bytes.Clone(good), good...), 10000},
		"frame and byte":                     {append(bytes.Clone(good), 0), 5000},
		"frame and skippable":                {append(bytes.Clone(good), skippable...), 5000},
		"skippable and frame":                {append(bytes.Clone(skippable), good...), 5000},
		"skippable only":                     {skippable, 0},
		"not zstd":                           {[]byte("\x1f\x8b\x08 gzip, not zstd"), 5000},
		"reserved block type":                {with(8, good[8]|6), 5000},
		"reserved header bit":                {with(4, good[4]|8), 5000},
		"dictionary":                         {with(4, good[4]|1), 5000},
		"checksum missing":                   {with(4, good[4]|4), 5000},
		"512 KiB that expand to 4 GiB":       {rleFrame(block.DefaultSize, 4<<30>>17), block.DefaultSize},
		"4 GiB stated":                       {rleFrame(4<<30, 4<<30>>17), block.DefaultSize},
		"4 GiB stated and wanted":            {rleFrame(4<<30, 4<<30>>17), 4 << 30},
		"256 MiB stated in 17 bytes":         {rleFrame(block.MaxDecoded, 1), block.MaxDecoded},
		"size that overflows":                {rleFrame(1<<64-1, 4), -1},
		"last block is missing":              {rleFrame(block.DefaultSize, 4)[:13+3*4], block.DefaultSize},
		"one RLE block less than it says":    {rleFrame(block.DefaultSize, 3), block.DefaultSize},
		"one RLE block more than it says":    {rleFrame(block.DefaultSize, 5), block.DefaultSize},
		"no content size":                    {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 1, 0, 0}, 0},
		"window of 3.75 TiB, size not given": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0}, 0},
	}
}

func TestSE06_HostileFrame(t *testing.T) {
	dec := block.NewDecoder()
	for name, c := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			dst := []byte("abc")
			var got []byte
			var err error
			n := allocated(func() { got, err = dec.Decode(dst, c.frame, c.want) })
			if !errdefs.IsDataLoss(err) {
				t.Errorf("got %v, want ErrDataLoss", err)
			}
			if string(got) != "abc" {
				t.Errorf("got %d bytes, want dst as it was", len(got))
			}
			if n > 2<<20 {
				t.Errorf("allocated %d bytes", n)
			}
		})
	}
}

// allocated returns the bytes that f allocates, live or not.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func FuzzDecode(f *testing.F) {
	for _, c := range hostile(f) {
		if len(c.frame) < 4<<10 { // long ones only slow the fuzzer down
			f.Add(c.frame, c.want)
		}
	}
	enc := newEncoder(f, block.LevelDefault, block.MinSize)
	for _, p := range contents(block.MinSize) {
		f.Add(enc.Encode(nil, p), len(p))
	}
	dec := block.NewDecoder()
	stream, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(block.MaxDecoded))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(stream.Close)
	f.Fuzz(func(t *testing.T, frame []byte, want int) {
		if want > block.MaxSize && len(frame) > 1<<10 {
			return // slow, and no other path
		}
		got, err := dec.Decode([]byte("abc"), frame, want)
		if err != nil {
			if !errdefs.IsDataLoss(err) || string(got) != "abc" {
				t.Errorf("error %v with %q", err, got)
			}
			return
		}
		if len(got) != 3+want || want > len(frame)<<15 {
			t.Fatalf("%d bytes from %d, want %d", len(got), len(frame), 3+want)
		}
		if err := stream.Reset(bytes.NewReader(frame)); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(stream); err != nil || !bytes.Equal(out.Bytes(), got[3:]) {
			t.Errorf("a streaming decoder gives %d bytes and %v, want %d", out.Len(), err, want)
		}
	})
}
