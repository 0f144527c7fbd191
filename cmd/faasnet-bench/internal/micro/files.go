package micro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

const (
	sequentialRead = 1 << 20
	randomRead     = 4 << 10
	randomReads    = 2000
	randomFile     = 512 << 10 // files not smaller are read at random
	dataLayers     = 3         // of image c: those behind the ones that its function reads
)

// inData applies f to the files of layers of image c, in the order of the tar.
// Names and sizes are looked up before the clock starts, by readdir and stat, so
// that the work is reading alone.
func inData(f func([]string) (Done, error)) func(context.Context, string) (Done, error) {
	return func(_ context.Context, root string) (Done, error) {
		var files []string
		for i := range dataLayers {
			dir := filepath.Join(root, "data", fmt.Sprintf("%02d", dataLayers+i))
			err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					files = append(files, path)
				}
				return err
			})
			if err != nil {
				return Done{}, err
			}
		}
		return f(files)
	}
}

func sequential(files []string) (d Done, err error) {
	buf := make([]byte, sequentialRead)
	err = d.timed(func() error {
		for _, name := range files {
			n, err := readAll(name, buf)
			d.Bytes += n
			d.Items++
			if err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

func readAll(name string, buf []byte) (n int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for {
		k, err := f.Read(buf)
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// random reads at the same places each time.
func random(files []string) (d Done, err error) {
	var open []*os.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	var pages []int64
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return d, err
		}
		if info.Size() < randomFile {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return d, err
		}
		open, pages = append(open, f), append(pages, info.Size()/randomRead)
	}
	if len(open) == 0 {
		return d, nil
	}
	r := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, randomRead)
	err = d.timed(func() error {
		for range randomReads {
			i := r.IntN(len(open))
			n, err := open[i].ReadAt(buf, r.Int64N(pages[i])*randomRead)
			d.Bytes += int64(n)
			d.Items++
			if err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

// library matches a file of image b that is large and mapped by programs.
const library = "usr/lib/*/openblas-pthread/libopenblasp-r*.so"

func mapped(_ context.Context, root string) (d Done, err error) {
	names, err := filepath.Glob(filepath.Join(root, library))
	if err != nil {
		return d, err
	}
	for _, name := range names {
		if err := d.timed(func() error { return d.touchWith(name, func() {}) }); err != nil {
			return d, err
		}
	}
	return d, nil
}

// touchWith maps a file, calls mapped, and reads a byte of every page. A page that
// cannot be read is an error.
func (d *Done) touchWith(name string, mapped func()) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("map %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(p)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%s: %v", name, fault)
		}
	}()
	mapped()
	var sum byte
	for i := 0; i < len(p); i += os.Getpagesize() {
		sum += p[i]
	}
	d.Items++
	d.Bytes += int64(len(p))
	runtime.KeepAlive(sum) // or nothing would be read
	return nil
}
