package index

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// FromTar builds the tree of one layer from its uncompressed tar stream,
// which it reads to the end. The tree is the directory that containerd v2.4.2
// unpacks the layer to (pkg/archive.Apply with OverlayConvertWhiteout), and
// what containerd refuses is refused: the error names the entry. Whiteouts that
// it takes in the bottom layer of an image only are taken in any. A stream that
// ends too early gives io.ErrUnexpectedEOF.
//
// Ranges of the tree are offsets in the stream, on device 0.
func FromTar(r io.Reader) (*Tree, error) {
	u := &unpacker{Tree: &Tree{root: newDir(0o755), devices: 1}}
	in := &tap{r: r}
	tr := tar.NewReader(in)
	last := ""
	for {
		in.mark()
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tar stream at byte %d, after entry %q: %w", in.n, last, err)
		}
		last = hdr.Name
		data, err := fileData(hdr, in)
		if err == nil {
			err = u.entry(hdr, data)
		}
		in.end = in.n + stored(data)
		if err != nil {
			return nil, fmt.Errorf("tar entry %q: %w", last, err)
		}
	}
	if _, err := in.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("tar stream at byte %d: %w", in.n, err)
	}
	if err := u.finish(); err != nil {
		return nil, err
	}
	return u.Tree, nil
}

// unpacker applies tar entries to a tree one after the other.
type unpacker struct {
	*Tree
	inodes int
	chunks int
	dirs   []dirTime
}

// dirTime is a directory's mtime: set when all entries are done, because in
// containerd the directory's children disturb it.
type dirTime struct {
	name string
	time time.Time
}

// entry applies one entry; data is where a regular file's bytes are. It does
// what the loop of applyNaive and createTarFile do, in their order.
func (u *unpacker) entry(hdr *tar.Header, data []Range) error {
	name := path.Clean(hdr.Name)
	if len(name) > maxPath {
		return pathTooLong(name)
	}
	dir, base := path.Split(name)
	at, err := u.rootPath(dir)
	if err != nil {
		return err
	}
	if base = path.Join("/", base)[1:]; base == "" {
		return nil // the root has no attributes of its own
	}
	if len(at)+len(base) > maxPath {
		return pathTooLong(at) // links lead deeper than the name is long
	}
	parent, err := u.mkdirs(at)
	if err != nil {
		return err
	}
	if done, err := u.whiteout(hdr, parent, base); done || err != nil {
		return err
	}
	if old, ok := parent.names[base]; ok && (!old.IsDir() || hdr.Typeflag != tar.TypeDir) {
		delete(parent.names, base)
	}
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	n, err := u.create(hdr, data, parent, base)
	if err != nil {
		return err
	}
	if err := setAttr(n, hdr); err != nil {
		return err
	}
	if hdr.Typeflag == tar.TypeDir {
		u.dirs = append(u.dirs, dirTime{name, hdr.ModTime})
	}
	return nil
}

// create makes the file that hdr describes, or finds the one it links to.
func (u *unpacker) create(hdr *tar.Header, data []Range, parent *inode, base string) (*inode, error) {
	switch hdr.Typeflag {
	case tar.TypeDir:
		if old, ok := parent.names[base]; ok {
			if old.below == takesAll {
				old.below = takesXattrs
			}
			return old, nil
		}
		return u.add(parent, base, unix.S_IFDIR)
	case tar.TypeReg:
		n, err := u.add(parent, base, unix.S_IFREG)
		if err != nil {
			return nil, err
		}
		n.Size, n.data = hdr.Size, data
		return n, u.checkChunks(n)
	case tar.TypeSymlink:
		if l := len(hdr.Linkname); l == 0 || l > maxSymlink {
			return nil, fmt.Errorf("symbolic link target has %d bytes, want 1..%d: %w", l, maxSymlink, errdefs.ErrInvalidArgument)
		}
		n, err := u.add(parent, base, unix.S_IFLNK|0o777)
		if err == nil {
			n.Target, n.Size = hdr.Linkname, int64(len(hdr.Linkname))
		}
		return n, err
	case tar.TypeLink:
		return u.link(hdr.Linkname, parent, base)
	case tar.TypeFifo:
		return u.add(parent, base, unix.S_IFIFO)
	case tar.TypeChar, tar.TypeBlock:
		return u.device(hdr, parent, base)
	case tar.TypeGNUSparse:
		return nil, fmt.Errorf("old GNU sparse file (type S): containerd cannot unpack it either, use tar --format=posix: %w", errdefs.ErrInvalidArgument)
	}
	return nil, fmt.Errorf("unknown tar entry type %q: %w", hdr.Typeflag, errdefs.ErrInvalidArgument)
}

// finish sets the times of directories and counts the names of each file.
func (u *unpacker) finish() error {
	for _, d := range u.dirs {
		p, err := u.rootPath(d.name)
		if err != nil {
			return fmt.Errorf("tar entry %q: %w", d.name, err)
		}
		n, err := u.lstat(p)
		if err == nil && (n == nil || n.deleted) {
			err = fmt.Errorf("directory was removed later in the same layer: %w", errdefs.ErrInvalidArgument)
		}
		if err != nil {
			return fmt.Errorf("tar entry %q: %w", d.name, err)
		}
		n.Sec, n.Nsec = boundTime(d.time)
	}
	settle(u.root)
	return nil
}

// settle counts the names of the files under dir, and makes a whiteout one
// whatever it came from.
func settle(dir *inode) {
	for _, n := range dir.names {
		if n.IsDir() {
			settle(n)
			continue
		}
		n.Nlink++
		n.deleted = false
	}
}
