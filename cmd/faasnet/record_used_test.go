package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

func TestLessReadahead(t *testing.T) {
	dir := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		disk, dev string // of dir, below /sys/block
		old, want string
	}{
		{"vda", "vda", "8192\n", "128"},
		{"sda", "sda/sda1", "4096\n", "128"},
		{"sda", "sda/sda1", "64\n", "64"},
		{"sda", "", "4096\n", "4096"}, // not on a disk
	} {
		t.Run(c.dev, func(t *testing.T) {
			sys := t.TempDir()
			file := filepath.Join(sys, "block", c.disk, "bdi", "read_ahead_kb")
			for _, d := range []string{filepath.Dir(file), filepath.Join(sys, "block", c.dev), filepath.Join(sys, "dev/block")} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(file, []byte(c.old), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.dev != "" {
				link := filepath.Join(sys, fmt.Sprintf("dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
				if err := os.Symlink("../../block/"+c.dev, link); err != nil {
					t.Fatal(err)
				}
			}
			is := func(want string) {
				t.Helper()
				if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
					t.Errorf("readahead is %q, %v, want %q", got, err, want)
				}
			}
			told := 0
			restore, err := lessReadahead(sys, []string{dir, dir}, func(_ string, kib int) {
				if told++; fmt.Sprintln(kib) != c.old {
					t.Errorf("was %d, want %s", kib, c.old)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			is(c.want)
			if lowered := strings.TrimSpace(c.old) != c.want; lowered != (told == 1) || told > 1 {
				t.Errorf("told %d times", told)
			}
			if err := restore(); err != nil {
				t.Error(err)
			}
			is(c.old)
		})
	}
	restore, err := lessReadahead(t.TempDir(), []string{filepath.Join(dir, "none")}, nil)
	if err == nil || restore() != nil {
		t.Errorf("a directory that is not there gives %v", err)
	}
}

func TestLowerDirs(t *testing.T) {
	got := lowerDirs([]mount.Mount{
		{Type: "overlay", Source: "overlay", Options: []string{"index=off", "lowerdir=/a:/b", "upperdir=/c"}},
		{Type: "bind", Source: "/d", Options: []string{"ro", "rbind"}},
		{Type: "tmpfs", Source: "tmpfs"},
	})
	if want := []string{"/a", "/b", "/d"}; !slices.Equal(got, want) {
		t.Errorf("directories are %q, want %q", got, want)
	}
}

func TestCached(t *testing.T) {
	const size = 3<<20 + 1000
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, window := range []int64{1 << 20, 2 << 20, 1 << 30} {
		if n, err := cached(f, size, window); n != size || err != nil {
			t.Errorf("of a file that was just written %d bytes of %d are cached, %v", n, size, err)
		}
	}
	if err := flush([]string{filepath.Dir(name), filepath.Dir(name)}); err != nil {
		t.Fatal(err)
	}
	if err := forget(t.Context(), filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if n, err := cached(f, size, 1<<20); n != 0 || err != nil {
		t.Errorf("%d bytes are cached, %v", n, err)
	}
}
