package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounts lists the mount points below dir, dir included, in the order in which
// they were mounted.
func Mounts(dir string) ([]string, error) { return MountsOf(dir, "") }

// MountsOf are those of Mounts whose type of file system begins so: "fuse" is
// that of fuse.anything, too.
func MountsOf(dir, fsType string) ([]string, error) {
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		skip, stop = mountinfo.PrefixFilter(dir)(i)
		return skip || !strings.HasPrefix(i.FSType, fsType), stop
	})
	var points []string
	for _, i := range infos {
		points = append(points, i.Mountpoint)
	}
	return points, err
}

// unmountBelow detaches all mounts below dir, last ones first. Their servers
// must be dead already: a FUSE connection without a server holds nobody up.
func unmountBelow(dir string) error {
	const rounds = 8 // a mount that hid others is off after the first
	var errs error
	for range rounds {
		points, err := Mounts(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		errs = nil
		for i := len(points) - 1; i >= 0; i-- {
			if err := unix.Unmount(points[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = errors.Join(errs, fmt.Errorf("unmount %s: %w", points[i], err))
			}
		}
	}
	return errors.Join(errs, fmt.Errorf("mounts below %s stay", dir))
}

// DiskUsage is what the files below dir take on the disk, in bytes; other file
// systems mounted there do not count.
func DiskUsage(dir string) (n int64, err error) {
	var top unix.Stat_t
	if err := unix.Lstat(dir, &top); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed while we look
			return nil
		case err != nil:
			return err
		case st.Dev != top.Dev && e.IsDir():
			return fs.SkipDir
		case st.Dev == top.Dev:
			n += st.Blocks * 512
		}
		return nil
	})
	return n, err
}
