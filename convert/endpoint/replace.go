package endpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links lead to a file at most, as in the kernel.
const maxLinks = 40

// tempPrefix begins the names of temporary files.
const tempPrefix = ".faasnet-"

// Replace gives the file at path, which need not be there, a new content: what
// write writes, all at once, or nothing if it fails. A symbolic link is followed,
// and a file that was there keeps its mode and owner. Anything but a regular file
// is refused. Errors name path and not the temporary file.
func Replace(path string, write func(io.Writer) error) (err error) {
	f, target, err := beside(path)
	if err != nil {
		return named(path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = named(path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// CheckReplace says what would keep Replace from writing to path, as far as that
// shows beforehand. Errors name path.
func CheckReplace(path string) error {
	f, _, err := beside(path)
	if err != nil {
		return named(path, err)
	}
	defer os.Remove(f.Name())
	return f.Close()
}

// beside makes an empty file that may be renamed to target, which is where path
// leads to. It has target's mode and owner, if target is there.
func beside(path string) (f *os.File, target string, err error) {
	old, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		old = nil
	case err != nil:
		return nil, "", err
	case !old.Mode().IsRegular():
		return nil, "", errInTheWay
	}
	if target, err = follow(path); err != nil {
		return nil, "", err
	}
	// Links in /proc may have names that lead elsewhere, or nowhere.
	if now, err := os.Lstat(target); old != nil && (err != nil || !os.SameFile(old, now)) {
		return nil, "", errInTheWay
	}
	f, err = os.OpenFile(filepath.Join(filepath.Dir(target), tempPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	if old == nil {
		err = f.Chmod(0o644) // whatever the umask: the same in any environment
	} else {
		err = keep(f, path, old.Mode().Perm())
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, "", err
	}
	return f, target, nil
}

// keep gives f the owner of the file at path, as far as that is allowed, and its
// permissions.
func keep(f *os.File, path string, perm os.FileMode) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return f.Chmod(perm)
}

// follow is the path that a chain of symbolic links leads to. It ends at one that
// is no link, or not there.
func follow(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EINVAL) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // .. is that of the directory
			if err != nil {
				return "", err
			}
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return "", unix.ELOOP
}

var errInTheWay = errors.New("is in the way and no regular file")

// named says err of path instead of the temporary file. What an error says of
// other files, such as one that was to be copied, stays.
func named(path string, err error) error {
	var of *os.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &of) && (of.Path == path || isTemp(of.Path)):
		err = of.Err
	case errors.As(err, &between) && isTemp(between.Old):
		err = between.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func isTemp(path string) bool { return strings.HasPrefix(filepath.Base(path), tempPrefix) }
