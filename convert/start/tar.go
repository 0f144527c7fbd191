package start

import (
	"archive/tar"
	"fmt"
	"io"
	"time"

	"github.com/faasnet/faasnet/fs/index"
)

// WriteTar writes the tar stream of the start layer: in the order of the plan
// each file, behind the directories above it that did not come before, and
// followed by its other names. content writes the bytes of a file. The same
// plan and tree give the same bytes.
func (p *Plan) WriteTar(w io.Writer, tree *index.Tree, content func(io.Writer, index.File) error) error {
	out := &writer{w: tar.NewWriter(w), tree: tree, dirs: make(map[string]bool)}
	for _, g := range p.groups {
		if err := out.group(g, content); err != nil {
			return fmt.Errorf("start layer: %s: %w", g[0].Path, err)
		}
	}
	return out.w.Close()
}

type writer struct {
	w    *tar.Writer
	tree *index.Tree
	dirs map[string]bool // those written
}

func (o *writer) group(g group, content func(io.Writer, index.File) error) error {
	for _, f := range g {
		for _, dir := range parents(f.Path) {
			if err := o.dir(dir); err != nil {
				return err
			}
		}
	}
	first := header(g[0])
	first.Typeflag, first.Size = tar.TypeReg, g[0].Size
	if err := o.w.WriteHeader(first); err != nil {
		return err
	}
	if err := content(o.w, g[0]); err != nil {
		return err
	}
	for _, f := range g[1:] {
		link := header(f) // all of it: unpacking a link sets the file's attributes again
		link.Typeflag, link.Linkname = tar.TypeLink, g[0].Path
		if err := o.w.WriteHeader(link); err != nil {
			return err
		}
	}
	return nil
}

func (o *writer) dir(name string) error {
	if o.dirs[name] {
		return nil
	}
	o.dirs[name] = true
	f, err := o.tree.Lookup(name)
	if err != nil {
		return err
	}
	h := header(f)
	h.Typeflag, h.Name = tar.TypeDir, dirName(name)
	return o.w.WriteHeader(h)
}

// header has all attributes of f.
func header(f index.File) *tar.Header {
	h := &tar.Header{
		Name: f.Path, Mode: int64(f.Mode & 0o7777), Uid: int(f.UID), Gid: int(f.GID),
		ModTime: time.Unix(f.Sec, int64(f.Nsec)).UTC(), Format: tar.FormatPAX,
	}
	for _, x := range f.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords["SCHILY.xattr."+x.Name] = x.Value
	}
	return h
}
