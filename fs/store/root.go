package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// formatVersion is what the file "version" says. Any other text, older or
// newer, means that nothing below root can be believed.
const formatVersion = "faasnet store 2\n"

// dirs are all directories of a store; prepare may throw their content away.
var dirs = [...]string{"blocks", "sections", "blobs", "flat", "tmp"}

// lockRoot takes the lock of root for this process. The lock goes with the
// returned file, and with the process however that ends.
func lockRoot(root string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(root, "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		var owner [32]byte
		n, _ := f.Read(owner[:])
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("store: lock %s: %w", root, err)
		}
		return nil, fmt.Errorf("store: %s is in use by process %s: %w",
			root, strings.TrimSpace(string(owner[:n])), errdefs.ErrFailedPrecondition)
	}
	// The pid is for the message above only, so a full disk does not matter.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}

// prepare makes the directories of a store below root and starts afresh where
// another format is found. tmp is always emptied. The version is written last,
// so that an interrupted prepare is repeated.
func prepare(root string) error {
	version := filepath.Join(root, "version")
	old, err := os.ReadFile(version)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	same := string(old) == formatVersion
	for _, d := range dirs {
		d = filepath.Join(root, d)
		if !same || filepath.Base(d) == "tmp" {
			if err := os.RemoveAll(d); err != nil {
				return fmt.Errorf("store: start afresh: %w", err)
			}
		}
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	if same {
		return nil
	}
	tmp := filepath.Join(root, "tmp", "version")
	if err := os.WriteFile(tmp, []byte(formatVersion), 0o600); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(tmp, version); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
