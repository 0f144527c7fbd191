package index

import (
	"fmt"
	"path"
	"strings"

	"github.com/containerd/errdefs"
)

// Limits of the two ways in which links are followed.
const (
	maxRootLinks   = 255 // continuity's fs.RootPath gives up after these
	maxKernelLinks = 40  // path resolution of the kernel does (MAXSYMLINKS)
)

// lstat finds the inode of p, an absolute clean path, as lstat(2) of the
// directory that the layer is unpacked in would. Symbolic links before the
// last component are followed as the kernel follows them, except that nothing
// outside the tree exists. nil without an error: there is no such file.
func (t *Tree) lstat(p string) (*inode, error) {
	if len(p) > maxPath {
		return nil, pathTooLong(p)
	}
	stack := []*inode{t.root}
	rest := strings.Split(strings.Trim(p, "/"), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		cur := stack[len(stack)-1]
		switch {
		case name == "" || name == ".":
			continue
		case cur.deleted:
			return nil, nil
		case !cur.IsDir():
			return nil, fmt.Errorf("%q: a parent is not a directory: %w", p, errdefs.ErrInvalidArgument)
		case len(name) > maxName:
			return nil, nameTooLong(name)
		case name == "..":
			if len(stack) == 1 {
				return nil, nil
			}
			stack = stack[:len(stack)-1]
			continue
		}
		next, ok := cur.names[name]
		if !ok {
			return nil, nil
		}
		if !next.IsSymlink() || len(rest) == 0 {
			stack = append(stack, next)
			continue
		}
		if links++; links > maxKernelLinks {
			return nil, fmt.Errorf("%q: too many links: %w", p, errdefs.ErrInvalidArgument)
		}
		if path.IsAbs(next.Target) {
			return nil, nil
		}
		rest = append(strings.Split(next.Target, "/"), rest...)
	}
	return stack[len(stack)-1], nil
}

// rootPath resolves every symbolic link of p inside the tree, as fs.RootPath
// of github.com/containerd/continuity v0.5.0 does: what does not exist is kept
// as it is, ".." stops at the root. The result is absolute and clean.
func (t *Tree) rootPath(p string) (string, error) {
	if r, ok := t.plainPath(p); ok {
		return r, nil
	}
	for links := 0; ; {
		before := links
		next, err := t.walkLinks(p, &links)
		if err != nil {
			return "", err
		}
		p = next
		if before == links {
			next = path.Join("/", next)
			if p == next {
				return next, nil
			}
			p = next
		}
	}
}

// plainPath is rootPath's short way for paths without links or "..".
func (t *Tree) plainPath(p string) (string, bool) {
	cur := t.root
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." || len(name) > maxName:
			return "", false
		case cur == nil:
			continue
		case !cur.IsDir():
			return "", false
		}
		if cur = cur.names[name]; cur != nil && cur.IsSymlink() {
			return "", false
		}
	}
	return path.Join("/", p), true
}

func (t *Tree) walkLinks(p string, links *int) (string, error) {
	dir, file := path.Split(p)
	switch {
	case dir == "":
		next, _, err := t.walkLink(file, links)
		return next, err
	case file == "" && dir == "/":
		return dir, nil
	case file == "":
		return t.walkLinks(dir[:len(dir)-1], links)
	}
	newDir, err := t.walkLinks(dir, links)
	if err != nil {
		return "", err
	}
	next, isLink, err := t.walkLink(path.Join(newDir, file), links)
	if err != nil || !isLink || path.IsAbs(next) {
		return next, err
	}
	return path.Join(newDir, next), nil
}

func (t *Tree) walkLink(p string, links *int) (string, bool, error) {
	if *links > maxRootLinks {
		return "", false, fmt.Errorf("%q: too many links: %w", p, errdefs.ErrInvalidArgument)
	}
	p = path.Join("/", p)
	n, err := t.lstat(p)
	if err != nil {
		return "", false, err
	}
	if n == nil || !n.IsSymlink() {
		return p, false, nil
	}
	*links++
	return n.Target, true, nil
}

func pathTooLong(p string) error {
	return fmt.Errorf("path %.40q... has %d bytes, the limit is %d: %w", p, len(p), maxPath, errdefs.ErrInvalidArgument)
}

func nameTooLong(name string) error {
	return fmt.Errorf("name %.40q... has %d bytes, the limit is %d: %w", name, len(name), maxName, errdefs.ErrInvalidArgument)
}
