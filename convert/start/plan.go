package start

import (
	"path"
	"slices"
	"strings"

	"github.com/faasnet/faasnet/fs/index"
)

// partly is the size in bytes from which it matters that little of a file is
// used: smaller ones have a few blocks only.
const partly = 1 << 20

// Plan is what a start layer has: files of an image in the order of a record.
// Each path of the record counts once: as one of Files, in Unknown, or in one of
// the numbers.
type Plan struct {
	groups []group

	// Unknown lists paths of the record that are no regular files of the image.
	Unknown []string
	// Little counts files of which less than a third is used: fetched block by
	// block, from where they are, they cost less. (Blocks that hold what is used
	// hold two to three times as much.)
	Little int
	// Other counts files of which a copy would not be the same: sparse ones,
	// and those with names that an upper layer hides.
	Other int
	// Empty counts files without content: nothing of them needs to be fetched.
	Empty int
	// Again counts paths that are further names of a file that an earlier path
	// names.
	Again int
}

// group is a file under all its names, the recorded one first.
type group []index.File

// New plans the start layer of an image whose merged tree is tree.
func New(tree *index.Tree, r Record) *Plan {
	p := &Plan{}
	var hot []index.File
	names := make(map[any]group) // of the files with more than one
	for _, e := range r {
		f, err := tree.Lookup(e.Path)
		if err != nil || f.Path != e.Path || !f.IsRegular() { // Lookup follows parents' links
			p.Unknown = append(p.Unknown, e.Path)
			continue
		}
		if f.Size == 0 {
			p.Empty++
			continue
		}
		if e.Used != nil && f.Size >= partly && *e.Used < f.Size/3 {
			p.Little++
			continue
		}
		hot = append(hot, f)
		if f.Nlink > 1 {
			names[f.ID()] = nil
		}
	}
	if len(names) > 0 {
		_ = tree.Walk(func(f index.File) error {
			if g, ok := names[f.ID()]; ok {
				names[f.ID()] = append(g, f)
			}
			return nil
		})
	}
	done := make(map[any]bool)
	for _, f := range hot {
		if done[f.ID()] {
			p.Again++
			continue
		}
		done[f.ID()] = true
		g := group{f}
		for _, other := range names[f.ID()] {
			if other.Path != f.Path {
				g = append(g, other)
			}
		}
		if len(g) != int(f.Nlink) || stored(f) != f.Size {
			p.Other++
			continue
		}
		p.groups = append(p.groups, g)
	}
	return p
}

// stored is how many bytes of a file are not in holes.
func stored(f index.File) (n int64) {
	for _, r := range f.Ranges() {
		n += r.Size
	}
	return n
}

// Files is the number of files in the plan.
func (p *Plan) Files() int { return len(p.groups) }

// drop takes files out of the plan: those with one of these paths, or below
// one. It returns how many.
func (p *Plan) drop(paths []string) int {
	gone := make(map[string]bool, len(paths))
	for _, name := range paths {
		gone[name] = true
	}
	before := len(p.groups)
	p.groups = slices.DeleteFunc(p.groups, func(g group) bool {
		return slices.ContainsFunc(g, func(f index.File) bool {
			for name := f.Path; name != "."; name = path.Dir(name) {
				if gone[name] {
					return true
				}
			}
			return false
		})
	})
	n := before - len(p.groups)
	p.Other += n
	return n
}

// parents lists the directories above name, top first, without the root.
func parents(name string) (out []string) {
	for i, c := range name {
		if c == '/' {
			out = append(out, name[:i])
		}
	}
	return out
}

// dirName is a directory's name in a tar stream.
func dirName(name string) string { return strings.TrimSuffix(name, "/") + "/" }
