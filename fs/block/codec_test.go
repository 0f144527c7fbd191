package block_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
)

var allLevels = []block.Level{block.LevelFastest, block.LevelDefault, block.LevelBetter, block.LevelBest}

func newEncoder(t testing.TB, l block.Level, blockSize int) *block.Encoder {
	t.Helper()
	e, err := block.NewEncoder(l, blockSize)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// contents are blocks that once upset some codec.
func contents(blockSize int) map[string][]byte {
	return map[string][]byte{
		"one byte":        {7},
		"255 bytes":       blocktest.Text(1, 255),
		"random":          blocktest.Random(2, blockSize),
		"random less one": blocktest.Random(3, blockSize-1),
		"zeros":           make([]byte, blockSize),
		"zeros less one":  make([]byte, blockSize-1),
		"text":            blocktest.Text(4, blockSize),
		"half and half":   slices.Concat(make([]byte, blockSize/2), blocktest.Random(5, blockSize/2)),
	}
}

func TestCF22_BlockThatDoesNotShrink(t *testing.T) {
	dec := block.NewDecoder()
	for _, size := range []int{block.MinSize, block.DefaultSize, block.MaxSize} {
		levels := allLevels
		if size == block.MaxSize {
			levels = levels[:2] // the others take seconds
		}
		for _, level := range levels {
			enc := newEncoder(t, level, size)
			for name, p := range contents(size) {
				t.Run(fmt.Sprintf("CF-22 %d %v %s", size, level, name), func(t *testing.T) {
					frame := enc.Encode([]byte("front"), p)[len("front"):]
					if len(frame) > block.MaxFrame(len(p)) {
						t.Errorf("%d bytes take %d compressed, more than MaxFrame %d", len(p), len(frame), block.MaxFrame(len(p)))
					}
					if name == "random" && len(frame) <= size {
						t.Errorf("%d random bytes shrank to %d: the case does not test what it should", size, len(frame))
					}
					got, err := dec.Decode([]byte("front"), frame, len(p))
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, append([]byte("front"), p...)) {
						t.Error("decoded bytes differ")
					}
				})
			}
		}
	}
}

func TestEncodeDependsOnNothingElse(t *testing.T) {
	const size = 64 << 10
	for _, level := range allLevels {
		used := newEncoder(t, level, size)
		for i := range 6 {
			p := blocktest.NewLayer(uint64(i), block.MinSize, size-i).Stream
			fresh := newEncoder(t, level, size).Encode(nil, p)
			if !bytes.Equal(used.Encode(make([]byte, 0, i<<12), p), fresh) {
				t.Errorf("%v: block %d differs from that of a fresh encoder", level, i)
			}
		}
	}
}

func TestCodecIsSafeForConcurrentUse(t *testing.T) {
	enc, dec := newEncoder(t, block.LevelDefault, block.DefaultSize), block.NewDecoder()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			p := blocktest.Text(uint64(i), 64<<10)
			for range 4 {
				got, err := dec.Decode(nil, enc.Encode(nil, p), len(p))
				if err != nil || !bytes.Equal(got, p) {
					t.Errorf("goroutine %d: wrong bytes, error %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestDecodeKeepsCapacity: whoever decodes a whole stream into one slice would
// copy it for every block otherwise.
func TestDecodeKeepsCapacity(t *testing.T) {
	p := blocktest.Text(1, block.MinSize)
	frame := newEncoder(t, block.LevelDefault, block.MinSize).Encode(nil, p)
	dst := make([]byte, 0, 10*len(p))
	got, err := block.NewDecoder().Decode(dst, frame, len(p))
	if err != nil || cap(got) != cap(dst) || &got[0] != &dst[:1][0] {
		t.Errorf("capacity %d (%v), want %d and the same array", cap(got), err, cap(dst))
	}
}

// TestZstdReadsFrames holds the frames against libzstd and against a streaming
// decoder that may use no more than the window of the largest block.
func TestZstdReadsFrames(t *testing.T) {
	for _, size := range []int{block.MinSize, block.DefaultSize, block.MaxSize} {
		l := blocktest.NewLayer(1, size, 3*size+1)
		var blob []byte
		enc := newEncoder(t, block.LevelDefault, size)
		for i := range l.Table.Len() {
			blob = enc.Encode(blob, l.Block(i))
		}
		cmd := exec.Command("zstd", "-dc", "--memory=4MB")
		cmd.Stdin = bytes.NewReader(blob)
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, l.Stream) {
			t.Errorf("block size %d: zstd -d gives %d bytes, want %d, error %v", size, len(got), len(l.Stream), err)
		}
		z, err := zstd.NewReader(bytes.NewReader(blob), zstd.WithDecoderMaxWindow(block.MaxSize))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(z); err != nil || !bytes.Equal(out.Bytes(), l.Stream) {
			t.Errorf("block size %d: streaming gives %d bytes, want %d, error %v", size, out.Len(), len(l.Stream), err)
		}
		z.Close()
	}
}

func TestEmptyFrameIsWhatEncodersWrite(t *testing.T) {
	if got := newEncoder(t, block.LevelDefault, block.MinSize).Encode(nil, nil); string(got) != block.EmptyFrame {
		t.Errorf("Encode of nothing gives %x, EmptyFrame is %x", got, block.EmptyFrame)
	}
	cmd := exec.Command("zstd", "-c", "--no-check", "--stream-size=0")
	cmd.Stdin = bytes.NewReader(nil)
	if got, err := cmd.Output(); err != nil || string(got) != block.EmptyFrame {
		t.Errorf("zstd gives %x for nothing (%v), EmptyFrame is %x", got, err, block.EmptyFrame)
	}
}

func TestNewEncoderRefuses(t *testing.T) {
	for _, size := range []int{-1, 0, block.MinSize - 1, block.MinSize + 1, block.MaxSize + 1, block.MaxSize * 2} {
		if _, err := block.NewEncoder(block.LevelDefault, size); !errdefs.IsInvalidArgument(err) {
			t.Errorf("block size %d: got %v, want ErrInvalidArgument", size, err)
		}
	}
	for _, l := range []block.Level{-1, 4} {
		if _, err := block.NewEncoder(l, block.MinSize); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%v: got %v, want ErrInvalidArgument", l, err)
		}
	}
}

func TestLevelNames(t *testing.T) {
	for _, l := range allLevels {
		if got, err := block.ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("ParseLevel(%q) = %v, %v", l, got, err)
		}
	}
	if _, err := block.ParseLevel("9"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("got %v, want ErrInvalidArgument", err)
	}
}
