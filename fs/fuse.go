package fs

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	clog "github.com/containerd/log"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// fsName is the source and the subtype of the FUSE mount in /proc/mounts.
const fsName = "faasnet"

const (
	// maxRead is the largest READ in bytes, and the kernel's own limit for
	// read-ahead. Larger requests would only come from direct I/O.
	maxRead = 128 << 10
	// readAhead in bytes, for each flat file. 1 MiB decodes 53 % more blocks: it
	// crosses the borders of files inside the layer (measured).
	readAhead = 128 << 10
)

// connection is one FUSE mount and its server.
type connection struct {
	dir    string
	minor  int // names the connection in fusectl
	server *fuse.Server
}

// connect mounts f on dir. The kernel's requests wait until server.Serve.
//
// The mount is made here and not by go-fuse because that opens /dev/fuse without
// O_CLOEXEC: a child process (a credential helper) that outlives the daemon
// would keep the connection, and readers would hang instead of getting an error.
func connect(ctx context.Context, dir string, f *flat, maxBackground int) (*connection, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0,max_read=%d,default_permissions,allow_other", fd, unix.S_IFDIR|0o500, maxRead)
	if err := unix.Mount(fsName, dir, "fuse."+fsName, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, data); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "mount fuse", Path: dir, Err: err}
	}
	server, err := fuse.NewServer(f, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		FsName:        fsName,
		Name:          fsName,
		MaxBackground: maxBackground,
		MaxWrite:      maxRead,
		MaxReadAhead:  readAhead,
		// PASSTHROUGH raises the stacking depth: EROFS then refuses the files
		// as devices, and overlayfs on overlayfs fails.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		// Nothing ever changes, so nothing is ever invalidated.
		ExplicitDataCacheControl: true,
		DisableSplice:            true, // see reply
		DisableXAttrs:            true,
		DisableReadDirPlus:       true,
		Logger:                   log.New(logWriter{clog.G(ctx)}, "", 0),
	})
	if err != nil { // the descriptor is closed
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return nil, fmt.Errorf("fuse on %s: %w", dir, err)
	}
	c := &connection{dir: dir, server: server}
	info, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(dir))
	if err == nil && len(info) == 0 {
		err = fmt.Errorf("%s is not in mountinfo", filepath.Base(dir))
	}
	if err != nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		server.Serve() // sees the end at once, closes the descriptor
		return nil, err
	}
	c.minor = info[len(info)-1].Minor
	return c, nil
}

// logWriter gives go-fuse's lines to our log.
type logWriter struct{ entry *clog.Entry }

func (w logWriter) Write(p []byte) (int, error) {
	w.entry.Warn("go-fuse: " + strings.TrimSpace(string(p)))
	return len(p), nil
}
