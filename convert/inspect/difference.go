package inspect

import (
	"fmt"
	"slices"

	"github.com/faasnet/faasnet/fs/index"
)

// difference names the first file by which an index differs from the tree that
// it should be of.
func difference(want *index.Tree, img []byte, devices []int64) string {
	got, err := index.Decode(img, devices)
	if err != nil {
		return err.Error()
	}
	a, b := files(want), files(got)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b) || i < len(a) && a[i].Path < b[i].Path:
			return fmt.Sprintf("%q is missing", a[i].Path)
		case i >= len(a) || b[i].Path < a[i].Path:
			return fmt.Sprintf("%q is not in the layers", b[i].Path)
		case !sameFile(a[i], b[i]):
			return fmt.Sprintf("%q differs", a[i].Path)
		}
	}
	return "same files, other bytes"
}

// files lists a tree by path.
func files(t *index.Tree) []index.File {
	var out []index.File
	_ = t.Walk(func(f index.File) error {
		out = append(out, f)
		return nil
	})
	slices.SortFunc(out, func(a, b index.File) int {
		switch {
		case a.Path < b.Path:
			return -1
		case a.Path > b.Path:
			return 1
		}
		return 0
	})
	return out
}

func sameFile(a, b index.File) bool {
	x, y := a.Attr, b.Attr
	if !slices.Equal(x.Xattrs, y.Xattrs) || !slices.Equal(a.Ranges(), b.Ranges()) {
		return false
	}
	return x.Mode == y.Mode && x.UID == y.UID && x.GID == y.GID && x.Rdev == y.Rdev && x.Nsec == y.Nsec && x.Sec == y.Sec &&
		(x.IsDir() || x.Nlink == y.Nlink && x.Size == y.Size) && x.Target == y.Target && a.Opaque == b.Opaque
}
