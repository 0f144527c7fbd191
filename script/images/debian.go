package images

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// apt asks the machine's apt, with its sources and keys, about a system on
// which nothing is installed. It changes nothing outside dir.
type apt struct {
	dir  string          // status, caches, downloaded packages
	have map[string]bool // packages that some group holds already
}

// newApt works in dir. Packages named installed count as installed, and so are
// never fetched.
func newApt(dir string, installed ...string) (*apt, error) {
	if err := os.MkdirAll(filepath.Join(dir, "debs"), 0o755); err != nil {
		return nil, err
	}
	var status strings.Builder
	for _, name := range installed {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: foreign\nVersion: 999\nMaintainer: none\nDescription: none\n\n", name)
	}
	return &apt{dir: dir, have: map[string]bool{}}, os.WriteFile(filepath.Join(dir, "status"), []byte(status.String()), 0o644)
}

func (a *apt) get(ctx context.Context, args ...string) (string, error) {
	opts := []string{"-q", "-y", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", "-o", "Acquire::Retries=3",
		"-o", "Dir::State::status=" + filepath.Join(a.dir, "status"),
		"-o", "Dir::State::extended_states=" + filepath.Join(a.dir, "extended_states"),
		"-o", "Dir::Cache::pkgcache=" + filepath.Join(a.dir, "pkgcache.bin"),
		"-o", "Dir::Cache::srcpkgcache=" + filepath.Join(a.dir, "srcpkgcache.bin")}
	return runIn(ctx, filepath.Join(a.dir, "debs"), "apt-get", append(opts, args...)...)
}

// closure returns the packages that names need and that no group has yet.
func (a *apt) closure(ctx context.Context, names []string) ([]string, error) {
	out, err := a.get(ctx, append([]string{"-s", "--no-install-recommends", "install"}, names...)...)
	if err != nil {
		return nil, err
	}
	var fresh []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Inst" && !a.have[f[1]] {
			a.have[f[1]] = true
			fresh = append(fresh, f[1])
		}
	}
	return fresh, nil
}

// download fetches packages; apt checks their sums.
func (a *apt) download(ctx context.Context, names []string) error {
	_, err := a.get(ctx, append([]string{"download"}, names...)...)
	return err
}

// Documentation is what slim images leave out, too. Old paths outside /usr go
// where a merged /usr has them.
var extractArgs = []string{"-x", "-p", "--numeric-owner", "--warning=no-timestamp",
	"--exclude=./usr/share/doc/*", "--exclude=./usr/share/man/*", "--exclude=./usr/share/locale/*", "--exclude=./usr/share/info/*",
	"--exclude=./usr/share/lintian/*", `--transform=flags=rh;s,^\./\(bin\|sbin\|lib\|lib32\|lib64\|libx32\)\(/\|$\),./usr/\1\2,`}

// unpack extracts a downloaded package into root. No script of it runs.
func (a *apt) unpack(ctx context.Context, name, root string) error {
	debs, err := filepath.Glob(filepath.Join(a.dir, "debs", name+"_*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("package %s: found %v: %w", name, debs, os.ErrNotExist)
	}
	r, w := io.Pipe()
	g, ctx := errgroup.WithContext(ctx)
	var complaint bytes.Buffer
	g.Go(func() error {
		deb := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", debs[0])
		deb.Stdout, deb.Stderr = w, os.Stderr
		err := deb.Run()
		w.CloseWithError(err)
		return err
	})
	g.Go(func() error {
		tar := exec.CommandContext(ctx, "tar", append(extractArgs, "-C", root)...)
		tar.Stdin, tar.Stderr = r, &complaint
		err := tar.Run()
		r.CloseWithError(err)
		return err
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", name, err, complaint.String())
	}
	return nil
}

// runIn runs a program of the machine in dir and returns what it prints; the
// error holds the end of its complaints.
func runIn(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		p := complaint.Bytes()
		return "", fmt.Errorf("%s %s: %w: %s", name, args[len(args)-1], err, p[max(0, len(p)-2000):])
	}
	return out.String(), nil
}
