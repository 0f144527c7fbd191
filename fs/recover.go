package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Stale is a mount that an earlier daemon left.
type Stale struct {
	Dir   string
	Lazy  bool     // its data came through the daemon: who uses it gets EIO, for ever
	Users []string // mount points of overlay file systems on top of it, such as a container's root
}

// Recover detaches what a dead daemon left mounted below dir and removes its
// files. It is called before New. It opens nothing below the mounts: a dead
// FUSE mount answers errors, a hung one nothing.
func Recover(dir string) ([]Stale, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	var stale []Stale
	var errs []error
	for _, m := range slices.Backward(all) { // the newest first: it may cover others
		if !strings.HasPrefix(m.Mountpoint, dir+"/") {
			continue
		}
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, &os.PathError{Op: "detach", Path: m.Mountpoint, Err: err})
			continue
		}
		if filepath.Dir(m.Mountpoint) == filepath.Join(dir, mountsDir) {
			stale = append(stale, Stale{
				Dir:   m.Mountpoint,
				Lazy:  !strings.HasSuffix(m.Mountpoint, localSuffix),
				Users: overlaysOn(m.Mountpoint, all),
			})
		}
	}
	probes, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, p := range probes {
		errs = append(errs, sweep(p), removeProbe(p))
	}
	return stale, errors.Join(append(errs, sweep(dir))...)
}

// sweep removes what mounts left in dir: files and empty directories only, so
// that a mount which is still there comes to no harm.
func sweep(dir string) error {
	var errs []error
	for _, d := range []string{imagesDir, mountsDir} {
		entries, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			errs = append(errs, os.Remove(filepath.Join(dir, d, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// overlaysOn lists the overlay mounts that have dir among their lower directories.
func overlaysOn(dir string, all []*mountinfo.Info) []string {
	var users []string
	for _, m := range all {
		if m.FSType == "overlay" && slices.Contains(lowerDirs(m.VFSOptions), dir) {
			users = append(users, m.Mountpoint)
		}
	}
	return users
}

// lowerDirs reads the lower directories out of overlayfs's options: one
// lowerdir= with ':' between them, or one lowerdir+= each.
func lowerDirs(options string) []string {
	var dirs []string
	for o := range strings.SplitSeq(options, ",") {
		if v, ok := strings.CutPrefix(o, "lowerdir="); ok {
			dirs = append(dirs, strings.Split(v, ":")...)
		}
		if v, ok := strings.CutPrefix(o, "lowerdir+="); ok {
			dirs = append(dirs, v)
		}
	}
	return dirs
}
