// Package snapshottertest has a Mounter whose remote layers are directories of the local disk.
package snapshottertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// LabelLayer names a layer of Mounter. It is a label that real layers have too.
const LabelLayer = "containerd.io/snapshot/faasnet/layer.digest"

// Mounter mounts runs of layers that are directories in overlayfs form. It merges a run as an image index does: whiteouts and opaque marks
// are kept where layers lie below. Its zero value with Dir and Layers set is ready; Close unmounts all.
type Mounter struct {
	Dir    string            // where it mounts; on the same file system as the layers
	Layers map[string]string // value of LabelLayer -> directory

	// Before, when set, is called first in each method and may wait or fail it. Layers is the number of a run's layers for Mount, else 0.
	Before func(ctx context.Context, method, user string, layers int) error

	mu    sync.Mutex
	n     int
	runs  map[string]*run            // by the names of their layers and what is below
	users map[string]map[string]*run // by user, then as in runs
	live  []map[string]string
	calls map[string]int
}

type run struct {
	dir   string
	users int
}

func (m *Mounter) enter(ctx context.Context, method, user string, layers int) error {
	m.mu.Lock()
	if m.calls == nil {
		m.calls, m.runs, m.users = map[string]int{}, map[string]*run{}, map[string]map[string]*run{}
	}
	m.calls[method]++
	m.mu.Unlock()
	if m.Before == nil {
		return nil
	}
	return m.Before(ctx, method, user, layers)
}

// Claim claims the layers in Layers.
func (m *Mounter) Claim(ctx context.Context, labels map[string]string) error {
	if err := m.enter(ctx, "Claim", "", 0); err != nil {
		return err
	}
	if _, ok := m.Layers[labels[LabelLayer]]; !ok {
		return fmt.Errorf("no layer %q: %w", labels[LabelLayer], errdefs.ErrNotFound)
	}
	return nil
}

// Mount merges run into a new directory and mounts it read-only.
func (m *Mounter) Mount(ctx context.Context, user string, layers []map[string]string, lower []string) (string, error) {
	if err := m.enter(ctx, "Mount", user, len(layers)); err != nil {
		return "", err
	}
	for _, dir := range lower {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return "", fmt.Errorf("lower %s is no directory: %w", dir, errors.Join(err, errdefs.ErrInvalidArgument))
		}
	}
	names := make([]string, len(layers))
	dirs := make([]string, len(layers))
	for i, labels := range layers {
		names[i] = labels[LabelLayer]
		if dirs[i] = m.Layers[names[i]]; dirs[i] == "" {
			return "", fmt.Errorf("no layer %q: %w", names[i], errdefs.ErrNotFound)
		}
	}
	key := strings.Join(names, " ") + " on " + strings.Join(lower, " ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.users[user][key]; r != nil {
		return r.dir, nil
	}
	r := m.runs[key]
	if r == nil {
		m.n++
		r = &run{dir: filepath.Join(m.Dir, strconv.Itoa(m.n))}
		if err := mountMerged(r.dir, dirs, lower); err != nil {
			return "", err
		}
		m.runs[key] = r
	}
	r.users++
	if m.users[user] == nil {
		m.users[user] = map[string]*run{}
	}
	m.users[user][key] = r
	return r.dir, nil
}

func mountMerged(dir string, layers, lower []string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := Merge(dir, layers)
	if err == nil {
		err = over(lower, dir+"-lower", func(below string) error { return settle(dir, below) })
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(err, unmount(dir))
	}
	return nil
}

// over calls f with what the directories lower, top first, show together, mounted at tmp if need be.
func over(lower []string, tmp string, f func(dir string) error) error {
	switch len(lower) {
	case 0:
		return f("")
	case 1:
		return f(lower[0])
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	merged := []mount.Mount{{Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + strings.Join(lower, ":")}}}
	if err := mount.All(merged, tmp); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return errors.Join(f(tmp), unix.Unmount(tmp, 0), os.Remove(tmp))
}

// unmount detaches dir, which may be in use, and removes its files only when nothing is mounted there.
func unmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Release gives back what user has mounted.
func (m *Mounter) Release(ctx context.Context, user string) error {
	if err := m.enter(ctx, "Release", user, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for key, r := range m.users[user] {
		delete(m.users[user], key)
		if r.users--; r.users == 0 {
			delete(m.runs, key)
			errs = append(errs, unmount(r.dir))
		}
	}
	delete(m.users, user)
	return errors.Join(errs...)
}

// Retain remembers live for Live.
func (m *Mounter) Retain(ctx context.Context, live []map[string]string) error {
	if err := m.enter(ctx, "Retain", "", 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = live
	return nil
}

// Live returns what Retain was last given.
func (m *Mounter) Live() []map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// Calls returns how often method was called.
func (m *Mounter) Calls(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[method]
}

// Mounted returns how many runs are mounted, and for how many users.
func (m *Mounter) Mounted() (runs, users int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs), len(m.users)
}

// Close unmounts all.
func (m *Mounter) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for key, r := range m.runs {
		delete(m.runs, key)
		errs = append(errs, unmount(r.dir))
	}
	clear(m.users)
	return errors.Join(errs...)
}
