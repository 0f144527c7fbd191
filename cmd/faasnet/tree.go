package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/index"
	"github.com/faasnet/faasnet/fs/layer"
)

// tree is the file tree that --layer chooses.
func (v *view) tree(c *cli.Context) (*index.Tree, []layer.ImageLayer, error) {
	i := c.Int("layer")
	if i < 0 {
		tree, devices, err := v.image.Tree()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", v.name, err)
		}
		return tree, devices, nil
	}
	tree, device, err := v.image.LayerTree(i)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", v.name, err)
	}
	return tree, []layer.ImageLayer{device}, nil
}

func (v *view) list(c *cli.Context, name string) error {
	tree, _, err := v.tree(c)
	if err != nil {
		return err
	}
	f, err := tree.Resolve(name)
	if err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	w := bufio.NewWriter(c.App.Writer)
	if err := list(w, tree, f, f.Path, c.Bool("recursive")); err != nil {
		return err
	}
	return w.Flush()
}

// list prints a file, or what is in a directory, with names below shown.
func list(w io.Writer, tree *index.Tree, f index.File, shown string, recursive bool) error {
	if !f.IsDir() {
		return printFile(w, f, path.Base(shown))
	}
	for _, name := range f.List() {
		child, err := tree.Lookup(path.Join(f.Path, name))
		if err != nil {
			return err
		}
		label := name
		if recursive {
			label = path.Join(shown, name)
		}
		if err := printFile(w, child, label); err != nil {
			return err
		}
		if recursive && child.IsDir() {
			if err := list(w, tree, child, label, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func printFile(w io.Writer, f index.File, name string) error {
	what := strconv.FormatInt(f.Size, 10)
	switch f.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		what = fmt.Sprintf("%d, %d", f.Rdev>>8&0xfff, f.Rdev&0xff|f.Rdev>>12&0xfff00)
	}
	name = printable(name)
	if f.IsSymlink() {
		name += " -> " + printable(f.Target)
	}
	_, err := fmt.Fprintf(w, "%s %3d %5d %5d %10s %s %s\n", mode(f.Mode), f.Nlink, f.UID, f.GID, what,
		time.Unix(f.Sec, int64(f.Nsec)).UTC().Format("2006-01-02T15:04:05Z"), name)
	return err
}

// printable is s as it may go to a terminal: an image's names and annotations
// are anybody's bytes. What has others than printable characters is quoted.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// mode is st_mode as ls shows it.
func mode(m uint32) string {
	kinds := map[uint32]byte{
		unix.S_IFDIR: 'd', unix.S_IFLNK: 'l', unix.S_IFIFO: 'p', unix.S_IFCHR: 'c', unix.S_IFBLK: 'b', unix.S_IFREG: '-',
	}
	out := append([]byte{kinds[m&unix.S_IFMT]}, os.FileMode(m & 0o777).String()[1:]...)
	for _, special := range []struct {
		bit  uint32
		at   int
		char byte
	}{{unix.S_ISUID, 3, 's'}, {unix.S_ISGID, 6, 's'}, {unix.S_ISVTX, 9, 't'}} {
		if m&special.bit == 0 {
			continue
		}
		if out[special.at] == '-' {
			special.char -= 'a' - 'A' // capital: not executable
		}
		out[special.at] = special.char
	}
	return string(out)
}

func (v *view) cat(c *cli.Context, name string) error {
	tree, devices, err := v.tree(c)
	if err != nil {
		return err
	}
	f, err := tree.Resolve(name)
	if err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	w := bufio.NewWriter(c.App.Writer)
	if err := inspect.NewReader(v.blobs, devices).Copy(c.Context, w, f); err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	return w.Flush()
}
