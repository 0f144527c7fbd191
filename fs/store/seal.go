package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const sealSuffix = ".sealed"

// seal is the proof that a flat file is whole: it was written after the fsync
// of the file and of the directory, so it means the same after a power failure
// as before. It holds for this very inode as it was at that moment: a copy, or
// a file that was written to since, has another inode or ctime and is rebuilt.
type seal struct {
	FlatID
	Inode uint64
	Mtime int64 // ns
	Ctime int64 // ns
}

// Seal makes a complete file trusted across restarts and reboots, and fit to
// be the device of a mount: it is never written again. That a block is present
// means that this process wrote it, so a complete file was written by us as a
// whole. Sealed files in use leave a quarter of MaxFlatBytes to other layers:
// errdefs.ErrResourceExhausted beyond that. Seal may be called again.
func (f *Flat) Seal(ctx context.Context) error {
	if err := f.beginSeal(); err != nil || f.Sealed() {
		return err
	}
	err := f.sync(ctx)
	x := &f.store.flats
	x.mu.Lock()
	f.mu.Lock()
	f.sealing = false
	f.sealed = err == nil
	if err != nil {
		x.sealed -= f.bytes()
	}
	f.leave()
	f.mu.Unlock()
	x.mu.Unlock()
	if err != nil {
		return fmt.Errorf("store: seal flat file of %v: %w", f.id.Blob, diskFull(err))
	}
	return nil
}

// Sealed reports whether the file is sealed.
func (f *Flat) Sealed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sealed
}

// beginSeal stops eviction from the file and takes a user of it, unless it is
// sealed already.
func (f *Flat) beginSeal() error {
	x := &f.store.flats
	x.mu.Lock()
	defer x.mu.Unlock()
	sealed := x.sealedInUse()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.sealed:
		return nil
	case f.sealing:
		return fmt.Errorf("store: flat file of %v is being sealed: %w", f.id.Blob, errdefs.ErrUnavailable)
	case f.count != f.blocks || len(f.busy) > 0:
		return fmt.Errorf("store: flat file of %v has %d of %d blocks: %w", f.id.Blob, f.count, f.blocks, errdefs.ErrFailedPrecondition)
	case sealed+f.bytes() > f.store.opts.MaxFlatBytes/4*3:
		return fmt.Errorf("store: no room for a sealed flat file of %d bytes: %w", f.id.Length, errdefs.ErrResourceExhausted)
	}
	if _, err := f.enter(); err != nil {
		return fmt.Errorf("store: seal: %w", err)
	}
	f.sealing = true
	x.sealed += f.bytes()
	return nil
}

// sync puts the file on stable storage, then its name, then the seal.
func (f *Flat) sync(ctx context.Context) error {
	if err := f.file.Sync(); err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	mark, err := sealOf(f.file, f.id)
	if err != nil {
		return err
	}
	tmp := filepath.Join(f.store.root, "tmp", strconv.FormatUint(f.store.tmp.Add(1), 10))
	if err := writeSynced(tmp, mark); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.path+sealSuffix); err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(dir)
}

// sealOf returns the content of the seal of file as it is now: a line of JSON
// and its sum.
func sealOf(file *os.File, id FlatID) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Size != id.Length {
		return nil, fmt.Errorf("file of %d bytes, want %d: %w", st.Size, id.Length, errdefs.ErrDataLoss)
	}
	p, err := json.Marshal(seal{id, st.Ino, st.Mtim.Nano(), st.Ctim.Nano()})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(p, "\n%x\n", sha256.Sum256(p)), nil
}

// flatName is what the names of all files of id begin with.
func flatName(id FlatID) string {
	p, err := json.Marshal(id)
	if err != nil {
		panic("store: " + err.Error()) // numbers and strings only
	}
	return fmt.Sprintf("%x", sha256.Sum256(p))
}

func writeSynced(path string, p []byte) (retErr error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if retErr != nil {
			f.Close()
			os.Remove(path)
		}
	}()
	if _, err := f.Write(p); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
