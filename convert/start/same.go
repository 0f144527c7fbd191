package start

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/index"
)

// Settle takes out of the plan what would not be the same in the start layer as
// it is in the image: below are the trees of the image's layers, merged is
// their merge. A default ACL, for example, that an upper layer gives to a
// directory is inherited by a copy there and not by the file.
func (p *Plan) Settle(ctx context.Context, below []*index.Tree, merged *index.Tree) error {
	content := func(w io.Writer, f index.File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return zeros(w, f)
	}
	for p.Files() > 0 {
		pr, pw := io.Pipe()
		go func() { pw.CloseWithError(p.WriteTar(pw, merged, content)) }()
		layer, err := index.FromTar(pr)
		pr.CloseWithError(err)
		if err != nil {
			return err
		}
		all, err := index.Merge(append(slices.Clone(below), layer), nil)
		if err != nil {
			return fmt.Errorf("start layer: %w", err)
		}
		other := Differences(merged, all)
		if len(other) == 0 {
			return nil
		}
		if p.drop(other) == 0 {
			return fmt.Errorf("start layer: %q would change: %w", other[0], errdefs.ErrInternal)
		}
	}
	return nil
}

// zeros stands for the content of a file.
func zeros(w io.Writer, f index.File) error {
	page := make([]byte, 64<<10)
	for n := f.Size; n > 0; {
		m, err := w.Write(page[:min(n, int64(len(page)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}

// Differences lists the paths at which two trees differ, in anything but where
// the bytes of files are.
func Differences(a, b *index.Tree) []string {
	x, y := files(a), files(b)
	var out []string
	twin := make(map[any]any) // files of a with several names, and what they are in b
	for len(x) > 0 && len(y) > 0 {
		switch order := cmp.Compare(x[0].Path, y[0].Path); {
		case order < 0:
			out, x = append(out, x[0].Path), x[1:]
		case order > 0:
			out, y = append(out, y[0].Path), y[1:]
		default:
			if !same(x[0], y[0], twin) {
				out = append(out, x[0].Path)
			}
			x, y = x[1:], y[1:]
		}
	}
	for _, f := range append(x, y...) {
		out = append(out, f.Path)
	}
	return out
}

// files lists a tree by path.
func files(t *index.Tree) (out []index.File) {
	_ = t.Walk(func(f index.File) error {
		out = append(out, f)
		return nil
	})
	slices.SortFunc(out, func(a, b index.File) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

func same(a, b index.File, twin map[any]any) bool {
	if a.Mode != b.Mode || a.UID != b.UID || a.GID != b.GID || a.Rdev != b.Rdev || a.Sec != b.Sec || a.Nsec != b.Nsec ||
		a.Target != b.Target || a.Opaque != b.Opaque || !slices.Equal(a.Xattrs, b.Xattrs) {
		return false
	}
	if a.IsDir() {
		return true
	}
	if a.Nlink != b.Nlink || a.Size != b.Size || stored(a) != stored(b) {
		return false
	}
	if a.Nlink == 1 {
		return true
	}
	if _, ok := twin[a.ID()]; !ok {
		twin[a.ID()] = b.ID()
	}
	return twin[a.ID()] == b.ID()
}
