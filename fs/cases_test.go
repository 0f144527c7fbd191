package fs

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/faasnet/faasnet/fs/index"
)

// Files and directories are the kernel's: whoever looks at very many of them, and
// whatever the kernel forgets of them, asks the daemon nothing, and the daemon
// holds nothing for each, nor for each layer that is idle.
func TestMC02_MC06_ManyFiles(t *testing.T) {
	const layers, dirs, each, large = 10, 5, 40, 5000
	var all []*layer
	var trees []*index.Tree
	for i := range layers {
		var entries []entry
		for d := range dirs {
			entries = append(entries, entry{name: fmt.Sprintf("d%d-%d/", i, d)})
			for f := range each {
				entries = append(entries, entry{name: fmt.Sprintf("d%d-%d/%d", i, d, f), data: []byte{byte(f)}})
			}
		}
		l, tree := newLayer(t, entries...)
		all, trees = append(all, l), append(trees, tree)
	}
	list := []entry{{name: "large/"}}
	for i := range large {
		list = append(list, entry{name: fmt.Sprintf("large/%05d", i), data: []byte{}, link: "x"})
	}
	l, tree := newLayer(t, list...)
	all, trees = append(all, l), append(trees, tree)
	img := image(t, trees, all...)
	f := newFS(t, Options{})
	heap, goroutines := held()
	m, err := f.Mount(t.Context(), img, files(all))
	if err != nil {
		t.Fatal(err)
	}
	inodes := 1 + layers*dirs*(1+each) + 1 + large
	if n := len(img) / inodes; n > 600 {
		t.Errorf("the index has %d bytes for each of %d files, want 600 at most", n, inodes)
	}
	before := requests(t, f)
	for range 2 {
		if n := len(walk(t, m.Dir())); n != inodes {
			t.Fatalf("found %d of %d", n, inodes)
		}
		dropCaches(t)
	}
	if n := requests(t, f) - before; n != 0 {
		t.Errorf("%v requests to the daemon", n)
	}
	now, running := held()
	if grown := int64(now) - int64(heap); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes for %d files in %d layers", grown, inodes, len(all))
	}
	if running > goroutines+2 {
		t.Errorf("%d goroutines more for %d idle layers", running-goroutines, len(all))
	}
	runtime.KeepAlive(img)
}

// held is what the process holds: bytes and goroutines.
func held() (uint64, int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}
