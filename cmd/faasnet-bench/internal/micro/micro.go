// Package micro is the work that micro measures: what containers do with
// their files, in one process that stays, so that nothing but the work is
// timed.
package micro

import (
	"context"
	"fmt"
	"time"
)

// Work is something that a container does with the files of a test image.
type Work struct {
	Name  string
	Image string // test image that it is done in
	What  string
	do    func(ctx context.Context, root string) (Done, error)
}

// Done says how much was done. It is the same on every file system.
type Done struct {
	Seconds float64 `json:"seconds"`
	Items   int64   `json:"items"` // files, programs or reads
	Bytes   int64   `json:"bytes"`
}

// Works lists all works.
func Works() []Work {
	return []Work{
		{"walk", "b", "find and stat every file", walk},
		{"seq", "c", "read all files of three layers, one after the other, 1 MiB at a time", inData(sequential)},
		{"rand", "c", "4 KiB reads at random places of large files", inData(random)},
		{"exec", "b", "start programs", programs},
		{"mmap", "b", "touch every page of a mapped 37 MB library", mapped},
		{"import", "b", "import numpy and scipy", imports},
	}
}

// Find returns the work called name.
func Find(name string) (Work, error) {
	for _, w := range Works() {
		if w.Name == name {
			return w, nil
		}
	}
	return Work{}, fmt.Errorf("no work %q", name)
}

// Do does the work in the file system mounted at root.
func (w Work) Do(ctx context.Context, root string) (Done, error) {
	d, err := w.do(ctx, root)
	if err != nil {
		return d, fmt.Errorf("%s: %w", w.Name, err)
	}
	if d.Items == 0 {
		return d, fmt.Errorf("%s: nothing to do in %s", w.Name, root)
	}
	return d, nil
}

// timed adds the time that f takes.
func (d *Done) timed(f func() error) error {
	begin := time.Now()
	err := f()
	d.Seconds += time.Since(begin).Seconds()
	return err
}
