package index_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// counting are bytes whose 8-byte words, counted from base, equal their own
// offset.
type counting struct{ base, end int64 }

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), c.end-off))
	var w [8]byte
	for i := 0; i < n; {
		at := off + int64(i) - c.base
		binary.LittleEndian.PutUint64(w[:], uint64(at&^7))
		i += copy(p[i:n], w[at&7:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// anything is a stream of whatever was in the buffer.
type anything struct{}

func (anything) Read(p []byte) (int, error) { return len(p), nil }

func TestCF09_Above4GiB(t *testing.T) {
	const size = 4<<30 + 3*512<<10 + 7
	head := new(indextest.Tar).Add(hdr{Name: "big", Size: size, Type: tar.TypeReg}).Bytes()[:512]
	body := io.LimitReader(anything{}, size) // the index does not depend on data
	pad := (512 - size%512) % 512
	tail := layer(file("second", "after 4 GiB"))
	tree, err := index.FromTar(io.MultiReader(bytes.NewReader(head), body, bytes.NewReader(make([]byte, pad)), bytes.NewReader(tail)))
	if err != nil {
		t.Fatal(err)
	}
	length := int64(512+size+pad) + int64(len(tail))
	img, err := tree.Encode([]int64{length})
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Check(img, []int64{length}); err != nil {
		t.Fatal(err)
	}
	// A sparse device that has only what the test reads.
	dev := filepath.Join(t.TempDir(), "dev")
	f, err := os.Create(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(length); err != nil {
		t.Fatal(err)
	}
	whole := &counting{base: 512, end: 512 + size}
	probes := []struct{ off, n int64 }{{0, 4096}, {4<<30 - 1, 16}, {4 << 30, 4096}, {size - 7, 7}, {size - 600, 600}}
	for _, p := range probes {
		buf := make([]byte, p.n+64)
		from := max(p.off&^7-8, 0)
		n, _ := whole.ReadAt(buf, 512+from)
		if _, err := f.WriteAt(buf[:n], 512+from); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteAt(tail, 512+size+int64(pad)); err != nil {
		t.Fatal(err)
	}
	d := indextest.EROFS(t, img, dev)
	if st := lstat(t, d, "big"); st.Size != size {
		t.Errorf("st_size %d, want %d", st.Size, size)
	}
	big, err := os.Open(filepath.Join(d, "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	for _, p := range probes {
		got, want := make([]byte, p.n), make([]byte, p.n)
		_, err := big.ReadAt(got, p.off)
		_, _ = whole.ReadAt(want, 512+p.off)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes at %d: %v, %x, want %x", p.n, p.off, err, got[:16:16], want[:7])
		}
	}
	if b, err := os.ReadFile(filepath.Join(d, "second")); string(b) != "after 4 GiB" || err != nil {
		t.Errorf("second: %q, %v", b, err)
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.Sys > 512<<20 {
		t.Errorf("%d MiB of memory", m.Sys>>20)
	}
}

func TestCF11_EmptyLayers(t *testing.T) {
	empty := make([]byte, 1024)
	d := same(t, layer(file("f", "1")), empty, layer(dir("./")), nil, layer(file("g", "2")))
	for name, want := range map[string]string{"f": "1", "g": "2"} {
		if b, err := os.ReadFile(filepath.Join(d, name)); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	same(t, nil)
}

func TestCF12_OnlySymlinksAndDirectories(t *testing.T) {
	same(t, layer(file("a", "")), layer(file("b", "")), layer(slink("l", "/bin/sh"), dir("e")), layer(file("c", "")), layer(file("d", "")))
}

func TestCF16_OddReaders(t *testing.T) {
	l := append(cf02()[:len(cf02())-1024], layer(file("tail", strings.Repeat("tail", 1000)))...)
	encode := func(r io.Reader) []byte {
		tree, err := index.FromTar(r)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tree.Encode(lengths(l))
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	want := encode(bytes.NewReader(l))
	for name, r := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(bytes.NewReader(l)), "data and EOF": iotest.DataErrReader(bytes.NewReader(l)),
		"half": iotest.HalfReader(bytes.NewReader(l)),
	} {
		if got := encode(r); !bytes.Equal(got, want) {
			t.Errorf("%s: another index", name)
		}
	}
	for n := range len(l) - 1024 {
		_, err := index.FromTar(bytes.NewReader(l[:n]))
		if n%97 == 0 {
			if _, ref := indextest.Unpack(t, l[:n]); (ref == nil) != (err == nil) {
				t.Errorf("%d bytes: %v, containerd says %v", n, err, ref)
			}
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	boom := errors.New("boom")
	if _, err := index.FromTar(io.MultiReader(bytes.NewReader(l), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("an error behind the end of the archive: %v", err)
	}
}

// sparse is a PAX sparse file of 6 MiB and 7 bytes with data at 1 MiB and 5 MiB
// and at its end.
func sparse(version string) ([]byte, string) {
	segments := []struct {
		off  int64
		body string
	}{{1 << 20, strings.Repeat("one.", 1024)}, {5 << 20, strings.Repeat("five", 256)}, {6 << 20, "the end"}}
	const size = 6<<20 + 7
	logical := make([]byte, size)
	var numbers []string
	var body string
	for _, s := range segments {
		copy(logical[s.off:], s.body)
		numbers = append(numbers, fmt.Sprint(s.off), fmt.Sprint(len(s.body)))
		body += s.body
	}
	h := hdr{Name: "GNUSparseFile.0/s", PAX: map[string]string{"GNU.sparse.name": "s", "GNU.sparse.size": fmt.Sprint(size)}}
	switch version {
	case "1.0":
		list := fmt.Sprintf("%d\n%s\n", len(segments), strings.Join(numbers, "\n"))
		h.PAX["GNU.sparse.major"], h.PAX["GNU.sparse.minor"] = "1", "0"
		delete(h.PAX, "GNU.sparse.size")
		h.PAX["GNU.sparse.realsize"] = fmt.Sprint(size)
		body = list + strings.Repeat("\x00", 512-len(list)%512) + body
	case "0.1":
		h.PAX["GNU.sparse.major"], h.PAX["GNU.sparse.minor"] = "0", "1"
		h.PAX["GNU.sparse.map"] = strings.Join(numbers, ",")
		h.PAX["GNU.sparse.numblocks"] = fmt.Sprint(len(segments))
	case "unversioned":
		h.PAX["GNU.sparse.map"] = strings.Join(numbers, ",")
		h.PAX["GNU.sparse.numblocks"] = fmt.Sprint(len(segments))
	}
	h.Body = body
	// Entries of every size in front: the map is found behind them.
	return layer(file("one", "1"), hdr{Name: "zero"}, file("full", strings.Repeat("f", 512)), h, file("after", "still here")), string(logical)
}

func TestCF17_Sparse(t *testing.T) {
	for _, v := range []string{"1.0", "0.1", "unversioned"} {
		t.Run(v, func(t *testing.T) {
			l, want := sparse(v)
			d := same(t, l)
			if b, err := os.ReadFile(filepath.Join(d, "s")); string(b) != want || err != nil {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			f, err := fromTar(t, l)[0].Lookup("s")
			if err != nil || len(f.Ranges()) != 3 {
				t.Errorf("ranges %+v, %v", f.Ranges(), err)
			}
		})
	}
	old := hdr{Name: "oldsparse", Type: tar.TypeGNUSparse, Body: strings.Repeat("x", 512)}
	l := layer(file("a", ""), old)
	rec := l[1024/2 : 1024]
	for i := 512; i < len(l); i += 512 {
		if l[i+156] == tar.TypeGNUSparse {
			rec = l[i : i+512]
			break
		}
	}
	copy(rec[257:], "ustar  \x00")
	clear(rec[345:])
	copy(rec[386:], "00000000000\x0000000001000\x00")
	copy(rec[483:], "00000001000\x00")
	indextest.Checksum(rec)
	if msg := refused(t, l); !strings.Contains(msg, "oldsparse") || !strings.Contains(msg, "sparse") {
		t.Errorf("%s", msg)
	}
	odd := hdr{Name: "s", PAX: map[string]string{"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": "4096",
		"GNU.sparse.map": "100,10,2000,10", "GNU.sparse.numblocks": "2"}, Body: strings.Repeat("x", 20)}
	if _, err := index.FromTar(bytes.NewReader(layer(odd))); err == nil || !strings.Contains(err.Error(), `"s"`) {
		t.Errorf("unaligned map: %v", err)
	}
	short := odd
	short.PAX = map[string]string{"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": "4096", "GNU.sparse.map": "0,1024", "GNU.sparse.numblocks": "1"}
	refused(t, layer(short))
}

func TestCF22_OddSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	random := make([]byte, 512<<10*3+1)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	var l indextest.Tar
	l.Add(file("random", string(random)), file("zeros", strings.Repeat("\x00", 512<<10-1)), dir("one"), dir("empty"))
	for i := range 10000 {
		l.Add(file(fmt.Sprintf("one/%d", i), string(rune('a'+i%26))))
	}
	for i := range 1000 {
		l.Add(file(fmt.Sprintf("empty/%d", i), ""))
	}
	b := l.Bytes()
	d := lazy(t, b)
	indextest.Compare(t, reference(t, b), d, indextest.Options{SkipMtime: func(p string) bool { return p == "." }})
}

func TestSizesAroundBlocks(t *testing.T) {
	var l indextest.Tar
	for _, n := range []int{1, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 1<<20 + 1} {
		l.Add(file(fmt.Sprint(n), strings.Repeat("x", n)))
	}
	for _, n := range []int{1, 300, 360, 400, 440, 447, 448, 449, 511, 512, 513, 4095} {
		l.Add(slink(fmt.Sprintf("link%d", n), strings.Repeat("t", n)))
	}
	for n := range 60 { // directories of every size around the ends of blocks
		name := fmt.Sprintf("dir%d", n)
		l.Add(dir(name))
		for i := range n {
			l.Add(file(fmt.Sprintf("%s/%0*d", name, 3+n%7*9, i), ""))
		}
	}
	same(t, l.Bytes())
	refused(t, layer(slink("l", strings.Repeat("t", 4096))))
	refused(t, layer(slink("l", "")))
}
