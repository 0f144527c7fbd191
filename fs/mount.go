package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// localSuffix ends the name of a mount that needs no daemon, so that a later
// daemon can tell by the name.
const localSuffix = "l"

// Mount is one image mounted read-only.
type Mount struct {
	fs   *FS
	dir  string
	lazy int // devices that need the daemon

	mu     sync.Mutex // guards the rest; taken before FS.mu
	undo   []func()   // what is done after the unmount, last first; nil once it is
	ending *ending    // the unmount under way
}

// ending is one try to unmount.
type ending struct {
	done chan struct{}
	err  error // valid after done
}

// Dir is where the file tree is: an absolute path without ':'.
func (m *Mount) Dir() string { return m.dir }

// Local tells that every device is a local file: the daemon is not in the path.
func (m *Mount) Local() bool { return m.lazy == 0 }

// Mount mounts the EROFS image img, whose device i+1 is files[i]. A file that is
// complete is mounted by its local path, the others through FUSE. The image is
// checked (index.Check) before the kernel sees it. The caller closes the Mount.
//
// The kernel may wait for our own FUSE server inside the calls, so these are
// watched and never hold the caller longer than ctx.
func (f *FS) Mount(ctx context.Context, img []byte, files []File) (*Mount, error) {
	start := time.Now()
	sizes := make([]int64, len(files))
	for i, file := range files {
		sizes[i] = file.Size()
	}
	if err := f.images.check(img, sizes); err != nil {
		return nil, err
	}
	select {
	case <-f.serving: // before that a look-up in the FUSE mount hangs
	case <-ctx.Done():
		return nil, fmt.Errorf("FUSE server does not run: %w: %w", context.Cause(ctx), errdefs.ErrUnavailable)
	}
	if err := f.begin(); err != nil {
		return nil, err
	}
	m := &Mount{fs: f}
	result := make(chan error)
	go func() {
		defer f.busy.Done()
		err := m.turn(ctx, img, files)
		select {
		case result <- err:
		case <-ctx.Done():
			if err != nil {
				return
			}
			if err := m.Close(); err != nil {
				log.G(ctx).WithError(err).Warn("an image that nobody waits for any more stays mounted")
			}
		}
	}()
	select {
	case err := <-result:
		if err != nil {
			return nil, err
		}
		f.metrics.mountTime.Observe(time.Since(start).Seconds())
		return m, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("mount image: %w: %w", context.Cause(ctx), errdefs.ErrUnavailable)
	}
}

// begin counts one call of mount in, which ends with busy.Done.
func (f *FS) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("file system is closed: %w", errdefs.ErrUnavailable)
	}
	f.busy.Add(1)
	return nil
}

// turn waits until few other mounts are being made: each needs a descriptor for
// every device while it is.
func (m *Mount) turn(ctx context.Context, img []byte, files []File) error {
	select {
	case m.fs.turns <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.fs.turns }()
	return m.mount(img, files)
}

func (m *Mount) mount(img []byte, files []File) (err error) {
	defer func() {
		if err != nil {
			m.unwind()
		}
	}()
	path, drop, err := m.fs.images.use(img)
	if err != nil {
		return err
	}
	m.undo = append(m.undo, drop)
	image, err := openDevice(path, int64(len(img)))
	if err != nil {
		return err
	}
	defer image.close()

	devices := make([]device, 0, len(files))
	defer func() {
		for _, d := range devices {
			d.close()
		}
	}()
	for _, file := range files {
		d, err := m.open(file)
		if err != nil {
			return err
		}
		devices = append(devices, d)
	}
	name := fmt.Sprintf("%s-%d", m.fs.epoch, m.fs.serial.Add(1))
	if m.Local() {
		name += localSuffix
	}
	m.dir = filepath.Join(m.fs.dir, mountsDir, name)
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return err
	}
	m.undo = append(m.undo, func() { os.Remove(m.dir) }) // never more than an empty directory
	direct := m.fs.o.DirectIO && m.lazy == len(files)
	if err := mountEROFS(image, devices, m.dir, direct); err != nil {
		return err
	}
	if err := m.fs.add(m); err != nil {
		return errors.Join(err, unmount(m.dir))
	}
	return nil
}

// open gives file as a device: its local copy if it is complete, else its node
// on the FUSE mount.
func (m *Mount) open(file File) (device, error) {
	if path, ok := file.Local(); ok {
		d, err := openDevice(path, file.Size())
		if !errors.Is(err, os.ErrNotExist) {
			return d, err
		}
	}
	m.lazy++
	n := m.fs.flat.files.use(file)
	m.undo = append(m.undo, func() { m.fs.flat.files.drop(n) })
	return openDevice(filepath.Join(m.fs.conn.dir, n.name()), n.size)
}

func (m *Mount) unwind() {
	for _, undo := range slices.Backward(m.undo) {
		undo()
	}
	m.undo = nil
}

// add counts m among the open mounts.
func (f *FS) add(m *Mount) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("file system is closed: %w", errdefs.ErrUnavailable)
	}
	f.mounts[m] = struct{}{}
	gauge := f.metrics.mounts.WithLabelValues(m.data())
	gauge.Inc()
	m.undo = append(m.undo, func() {
		gauge.Dec()
		f.mu.Lock()
		delete(f.mounts, m)
		f.mu.Unlock()
	})
	return nil
}

func (m *Mount) data() string {
	if m.Local() {
		return "local"
	}
	return "lazy"
}

// Close unmounts. A mount that is still in use is detached; who has it goes on
// reading when it is local, and else gets EIO for what the kernel has not cached.
// After an error the mount is as before and Close may be called again; after
// success it does nothing. The kernel may wait for READs in flight: when it does
// so for longer than the grace time, Close returns ErrUnavailable and the
// unmount goes on.
func (m *Mount) Close() error {
	m.mu.Lock()
	if m.undo == nil {
		m.mu.Unlock()
		return nil
	}
	e := m.ending
	if e == nil {
		e = &ending{done: make(chan struct{})}
		m.ending = e
		m.fs.busy.Go(func() { m.end(e) })
	}
	m.mu.Unlock()
	grace := time.NewTimer(m.fs.o.Grace)
	defer grace.Stop()
	select {
	case <-e.done:
		return e.err
	case <-grace.C:
		return fmt.Errorf("unmount %s has not ended after %v: %w", m.dir, m.fs.o.Grace, errdefs.ErrUnavailable)
	}
}

func (m *Mount) end(e *ending) {
	e.err = unmount(m.dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.err == nil {
		m.unwind()
	}
	m.ending = nil
	close(e.done)
}
