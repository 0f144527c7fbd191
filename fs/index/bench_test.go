package index_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// manyFiles is a tar stream of n files of one byte in 200 directories, made as
// it is read.
type manyFiles struct {
	n, i int
	rest []byte
}

func (m *manyFiles) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		if m.i == m.n {
			return 0, io.EOF
		}
		var l indextest.Tar
		for range min(1000, m.n-m.i) {
			if m.i < 200 {
				l.Add(hdr{Name: fmt.Sprintf("d%03d", m.i), Type: tar.TypeDir})
			}
			l.Add(file(fmt.Sprintf("d%03d/some-file-with-a-name-%07d.py", m.i%200, m.i), "x"))
			m.i++
		}
		m.rest = l.Bytes()[:l.Len()]
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

const many = 500_000

func BenchmarkFromTar500k(b *testing.B) {
	for b.Loop() {
		tree, err := index.FromTar(&manyFiles{n: many})
		if err != nil {
			b.Fatal(err)
		}
		report(b, tree)
	}
}

// report says how much of the heap is alive, per file.
func report(b *testing.B, keep any) {
	b.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/many, "heapbytes/file")
	runtime.KeepAlive(keep)
}

func image(b *testing.B) ([]byte, []int64) {
	b.Helper()
	tree, err := index.FromTar(&manyFiles{n: many})
	if err != nil {
		b.Fatal(err)
	}
	devices := []int64{2 * many * 512 * 2}
	img, err := tree.Encode(devices)
	if err != nil {
		b.Fatal(err)
	}
	return img, devices
}

func BenchmarkEncode500k(b *testing.B) {
	img, devices := image(b)
	tree, err := index.Decode(img, devices)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		again, err := tree.Encode(devices)
		if err != nil || !bytes.Equal(again, img) {
			b.Fatal("another image", err)
		}
	}
	b.ReportMetric(float64(len(img))/many, "imagebytes/file")
}

func BenchmarkDecode500k(b *testing.B) {
	img, devices := image(b)
	b.ResetTimer()
	for b.Loop() {
		tree, err := index.Decode(img, devices)
		if err != nil {
			b.Fatal(err)
		}
		report(b, tree)
	}
}

func BenchmarkCheck500k(b *testing.B) {
	img, devices := image(b)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if err := index.Check(img, devices); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMerge500k(b *testing.B) {
	img, devices := image(b)
	tree, err := index.Decode(img, devices)
	if err != nil {
		b.Fatal(err)
	}
	upper, err := index.FromTar(bytes.NewReader(layer(file("d000/new", ""))))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := index.Merge([]*index.Tree{tree, upper}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
