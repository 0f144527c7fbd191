package images

import (
	"archive/tar"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

//go:embed handler.py
var handler []byte

// group is one layer of Debian packages: names with all that they need and no
// layer below has.
type group struct {
	note  string
	names []string
}

var scipyGroups = []group{
	{"base", []string{"base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep", "gzip", "hostname",
		"libc-bin", "login", "mawk", "ncurses-base", "ncurses-bin", "passwd", "perl-base", "sed", "sysvinit-utils", "tar", "util-linux"}},
	{"certificates", []string{"ca-certificates", "netbase", "openssl", "tzdata"}},
	{"python", []string{"python3"}},
	{"blas", []string{"libopenblas0-pthread", "liblapack3"}},
	{"numpy", []string{"python3-numpy"}},
	{"scipy", []string{"python3-scipy"}},
	{"pandas", []string{"python3-pandas"}},
	{"pillow", []string{"python3-pil"}},
	{"matplotlib", []string{"python3-matplotlib"}},
	{"learn", []string{"python3-sklearn"}},
	{"statistics", []string{"python3-statsmodels"}},
	{"web", []string{"python3-flask", "python3-requests", "python3-yaml"}},
	{"sql", []string{"python3-sqlalchemy", "python3-psycopg2", "python3-redis"}},
	{"hdf5", []string{"python3-h5py"}},
	{"graphs", []string{"python3-networkx"}},
}

// without are packages that the others depend on and do not need to run:
// pythran brings 500 MB of compilers, which no function image has; compiling
// sympy's tests takes longer than all the rest.
var without = []string{"python3-pythran", "python3-sympy", "unicode-data"}

func imageB(ctx context.Context, w *Writer, work string, log io.Writer) ([]string, error) {
	a, err := newApt(filepath.Join(work, "apt"), without...)
	if err != nil {
		return nil, err
	}
	var packages [][]string // of each group
	for _, g := range scipyGroups {
		p, err := a.closure(ctx, g.names)
		if err != nil {
			return nil, fmt.Errorf("packages of %s: %w", g.note, err)
		}
		packages = append(packages, p)
	}
	all := slices.Concat(packages...)
	fmt.Fprintf(log, "image b: downloading %d packages\n", len(all))
	if err := a.download(ctx, all); err != nil {
		return nil, err
	}
	fmt.Fprintln(log, "image b: unpacking, compiling and packing")
	python := filepath.Join(work, "python") // a root that can run python
	if err := a.tree(ctx, python, slices.Concat(packages[:3]...)); err != nil {
		return nil, err
	}
	if err := mergeUsr(python); err != nil {
		return nil, err
	}
	roots := make([]string, len(scipyGroups))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, group := range scipyGroups {
		roots[i] = filepath.Join(work, "layers", fmt.Sprintf("%02d-%s", i, group.note))
		g.Go(func() error {
			if err := a.tree(ctx, roots[i], packages[i]); err != nil {
				return err
			}
			return finish(ctx, group.note, roots[i], python)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, group := range scipyGroups {
		w.Add(group.note, Dir(roots[i]))
	}
	w.Add("handler", func(tw *tar.Writer) error {
		if err := dirs(tw, "app"); err != nil {
			return err
		}
		return file(tw, "app/handler.py", handler)
	})
	for i := range 4 { // real function images have such small ones, too
		w.Add("settings", func(tw *tar.Writer) error {
			return file(tw, fmt.Sprintf("app/stage%d.json", i), fmt.Appendf(nil, `{"stage": %d}`, i))
		})
	}
	return []string{"/usr/bin/python3", "/app/handler.py"}, nil
}

// tree unpacks packages into root.
func (a *apt) tree(ctx context.Context, root string, packages []string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, p := range packages {
		if err := a.unpack(ctx, p, root); err != nil {
			return err
		}
	}
	return nil
}

// finish does what the packages' own scripts would have done.
func finish(ctx context.Context, note, root, python string) error {
	switch note {
	case "base":
		if err := mergeUsr(root); err != nil {
			return err
		}
		for _, f := range []string{"passwd", "group"} {
			if err := os.Link(filepath.Join(root, "usr/share/base-passwd", f+".master"), filepath.Join(root, "etc", f)); err != nil {
				return err
			}
		}
		return os.Symlink("mawk", filepath.Join(root, "usr/bin/awk"))
	case "blas": // update-alternatives
		libs, err := filepath.Glob(filepath.Join(root, "usr/lib/*/openblas-pthread/lib*.so.[0-9]"))
		if err != nil {
			return err
		}
		for _, lib := range libs {
			dir, base := filepath.Split(lib)
			if err := os.Symlink(filepath.Join("openblas-pthread", base), filepath.Join(dir, "..", base)); err != nil {
				return err
			}
		}
		return nil
	}
	return compile(ctx, root, python)
}

// mergeUsr makes the links of a merged /usr, where root has none yet.
func mergeUsr(root string) error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// compile writes the byte code of root's Python modules, with the
// interpreter of the root directory python. The mount is in a mount namespace
// of its own and goes with it.
func compile(ctx context.Context, root, python string) error {
	libs, err := filepath.Glob(filepath.Join(root, "usr/lib/python3*"))
	if err != nil || len(libs) == 0 {
		return err
	}
	for i, lib := range libs {
		libs[i] = filepath.Join("/mnt/usr/lib", filepath.Base(lib))
	}
	const script = `r=$1; l=$2; shift 2; mkdir -p "$r/mnt"; mount --bind "$l" "$r/mnt"
exec chroot "$r" /usr/bin/python3 -m compileall -q -s /mnt -p / "$@"`
	args := append([]string{"-m", "--propagation", "private", "sh", "-ec", script, "compile", python, root}, libs...)
	_, err = runIn(ctx, "", "unshare", args...)
	return err
}
