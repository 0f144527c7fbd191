package snapshotter

import (
	"archive/tar"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

// tree is what the layers so far show.
type tree struct {
	dirs map[string]bool // false for files
	was  map[string]bool // a file or whiteout in some layer
}

func newTree() tree { return tree{map[string]bool{}, map[string]bool{}} }

// layer returns a random layer that an image builder could have made on t, and changes t. It has few names, so that layers hide, delete and
// replace what is below; directories are often implicit.
func (t tree) layer(r *rand.Rand) []byte {
	var b indextest.Tar
	touched := map[string]bool{} // by this layer, with all directories above
	made := map[string]bool{}    // directories that this layer has entries of
	touch := func(n string) {
		for ; n != "."; n = path.Dir(n) {
			touched[n] = true
		}
	}
	for i := range 4 + r.IntN(10) {
		n := fmt.Sprintf("d%d", r.IntN(3))
		for range r.IntN(3) {
			n += fmt.Sprintf("/d%d", r.IntN(3))
		}
		id := int64(1 + r.IntN(5))
		dir := header{Name: n + "/", Type: tar.TypeDir, Mode: 0o700 + int64(r.IntN(64)), UID: id, GID: id}
		isDir, exists := t.dirs[n]
		switch r.IntN(7) {
		case 0: // a directory: new, with new attributes, or in the place of a file
			if !t.free(path.Dir(n), touched, made) || (touched[n] && !isDir) {
				continue
			}
			dir.Xattrs = map[string]string{"user.d": fmt.Sprint(i)}
			b.Add(dir)
			if !isDir {
				t.remove(n)
			}
			t.add(n, true)
			made[n] = true
		case 1:
			if !t.free(path.Dir(n), touched, made) || !exists || touched[n] {
				continue
			}
			b.Add(header{Name: path.Dir(n) + "/.wh." + path.Base(n)})
			t.was[n] = true
			t.remove(n)
		case 2:
			if !t.free(path.Dir(n), touched, made) || !isDir || touched[n] {
				continue
			}
			b.Add(dir, header{Name: n + "/.wh..wh..opq"})
			t.remove(n)
			t.add(n, true)
			made[n] = true
		case 3: // a file, maybe in the place of a directory
			if !t.free(path.Dir(n), touched, made) || touched[n] {
				continue
			}
			b.Add(header{Name: n, Body: fmt.Sprint("file ", i), UID: id})
			t.remove(n)
			t.add(n, false)
		default:
			f := n + fmt.Sprintf("/f%d", r.IntN(3))
			if !t.free(n, touched, made) || touched[f] {
				continue
			}
			b.Add(header{Name: f, Body: strings.Repeat("x", r.IntN(9000)), UID: id, Mode: 0o600 + int64(r.IntN(64))},
				header{Name: f + "-link", Type: tar.TypeLink, Link: f}, header{Name: f + "-sym", Type: tar.TypeSymlink, Link: "f0"})
			for _, s := range []string{"", "-link", "-sym"} {
				t.add(f+s, false)
				touch(f + s)
			}
		}
		touch(n)
	}
	return b.Bytes()
}

// free tells whether something can be put into dir: nothing above is a file, or was deleted by the same layer. containerd fails to copy the
// owner of an implicit directory if a layer has a file or whiteout there or above.
func (t tree) free(dir string, touched, made map[string]bool) bool {
	implicit := false
	for ; dir != "."; dir = path.Dir(dir) {
		implicit = implicit || !made[dir]
		isDir, exists := t.dirs[dir]
		if exists != isDir || (!exists && touched[dir]) || (t.was[dir] && implicit) {
			return false
		}
	}
	return true
}

func (t tree) add(n string, isDir bool) {
	t.dirs[n] = isDir
	t.was[n] = t.was[n] || !isDir
	for n = path.Dir(n); n != "."; n = path.Dir(n) {
		t.dirs[n] = true
	}
}

func (t tree) remove(n string) {
	for k := range t.dirs {
		if k == n || strings.HasPrefix(k, n+"/") {
			delete(t.dirs, k)
		}
	}
}
