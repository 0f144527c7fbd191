package fs

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/containerd/log"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// pageSize is the block size that stat shows.
const pageSize = 4096

// forever is how long the kernel may keep names and attributes: nothing ever changes.
const forever = 365 * 24 * time.Hour

// flat is the file system behind the FUSE mount: one directory of read-only
// files, one for each layer. The kernel's EROFS driver is its only reader.
type flat struct {
	fuse.RawFileSystem // answers ENOSYS to what is not here

	ctx     context.Context //nolint:containedctx // ends when the mount is closed
	state   string          // a directory of the file system that statfs speaks of
	files   *table
	limits  *admission
	timeout time.Duration
	log     *logLimit
	metrics *metrics
}

func (f *flat) String() string { return fsName }

func (f *flat) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.metrics.request("lookup")
	if h.NodeId != rootID {
		return fuse.ENOTDIR
	}
	n, ok := f.files.lookup(name)
	if !ok {
		return fuse.ENOENT
	}
	out.NodeId, out.Generation = n.id, 1
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
	n.attr(&out.Attr)
	return fuse.OK
}

func (f *flat) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.metrics.request("getattr")
	out.SetTimeout(forever)
	if in.NodeId == rootID {
		out.Attr = fuse.Attr{Ino: rootID, Mode: syscall.S_IFDIR | 0o500, Nlink: 2, Blksize: pageSize}
		return fuse.OK
	}
	n, ok := f.files.get(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	n.attr(&out.Attr)
	return fuse.OK
}

// attr says that only root may read the file: permissions of files inside a
// layer are checked by the file system mounted on top.
func (n *node) attr(a *fuse.Attr) {
	*a = fuse.Attr{
		Ino: n.id, Size: uint64(n.size), Blocks: (uint64(n.size) + 511) / 512,
		Mode: syscall.S_IFREG | 0o400, Nlink: 1, Blksize: pageSize,
	}
}

// Open answers ENOSYS: the kernel then opens files by itself from the first
// time on, and keeps their pages.
func (f *flat) Open(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	f.metrics.request("open")
	return fuse.ENOSYS
}

func (f *flat) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	f.metrics.request("opendir")
	if in.NodeId != rootID {
		return fuse.ENOTDIR
	}
	return fuse.OK
}

// ReadDir uses node ids as offsets: a reader that seeks back sees what it saw,
// whatever came and went in between.
func (f *flat) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f.metrics.request("readdir")
	const dots = 2 // offsets 1 and 2 are taken by "." and "..", node ids start at 2
	for i := in.Offset; i < dots; i++ {
		if !out.AddDirEntry(fuse.DirEntry{Mode: syscall.S_IFDIR, Name: "..."[:i+1], Ino: rootID, Off: i + 1}) {
			return fuse.OK
		}
	}
	for _, n := range f.files.after(max(in.Offset, dots) - 1) {
		if !out.AddDirEntry(fuse.DirEntry{Mode: syscall.S_IFREG, Name: n.name(), Ino: n.id, Off: n.id + 1}) {
			break
		}
	}
	return fuse.OK
}

// StatFs gives the figures of the file system that holds the data.
func (f *flat) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	f.metrics.request("statfs")
	var st syscall.Statfs_t
	if err := syscall.Statfs(f.state, &st); err != nil {
		return fuse.ToStatus(err)
	}
	out.FromStatfsT(&st)
	return fuse.OK
}

func (f *flat) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.metrics.request("read")
	n, ok := f.files.get(in.NodeId)
	if !ok {
		return nil, fuse.EIO // its last mount was closed
	}
	off := int64(in.Offset)
	size := int(min(int64(in.Size), n.size-off))
	if off < 0 || size <= 0 {
		return fuse.ReadResultData(nil), fuse.OK
	}
	if !f.limits.enter(&n.active) {
		f.metrics.failed("limit")
		return nil, fuse.EIO
	}
	defer f.limits.leave(&n.active)

	start := time.Now()
	ctx := &readContext{parent: f.ctx, cancel: cancel, deadline: start.Add(f.timeout)}
	defer ctx.release()
	result, err := f.read(ctx, n.file, off, size, buf)
	if err != nil {
		f.metrics.failed(reason(ctx, err))
		if errors.Is(ctx.Err(), context.Canceled) && f.ctx.Err() == nil {
			return nil, fuse.EINTR // nobody waits for it
		}
		f.log.warn(log.G(f.ctx).WithError(err).WithField("file", n.id), "READ answered with EIO")
		return nil, fuse.EIO
	}
	f.metrics.read(size, time.Since(start))
	return result, fuse.OK
}

func (f *flat) read(ctx context.Context, file File, off int64, n int, buf []byte) (fuse.ReadResult, error) {
	span, err := file.View(ctx, off, n)
	if err != nil {
		return nil, err
	}
	return reply(span, n, buf)
}
