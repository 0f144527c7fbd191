package endpoint

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// undoList remembers the files and directories that were made, so that a
// failure leaves nothing behind.
type undoList struct{ made []string }

// run removes what was made, last first. Directories that others use by now
// stay.
func (u *undoList) run() {
	for _, path := range slices.Backward(u.made) {
		os.Remove(path)
	}
	u.made = nil
}

// mkdir makes a directory with its parents.
func (u *undoList) mkdir(dir string) error {
	if exists(dir) {
		return nil
	}
	if err := u.mkdir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	u.made = append(u.made, dir)
	return nil
}

// write makes a file: it appears under its name when it is whole.
func (u *undoList) write(path string, r io.Reader) error {
	if err := Replace(path, func(w io.Writer) error { _, err := io.Copy(w, r); return err }); err != nil {
		return err
	}
	u.made = append(u.made, path)
	return nil
}

func (u *undoList) writeBytes(path string, b []byte) error { return u.write(path, bytes.NewReader(b)) }
