package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/start"
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
			kept, told := filepath.Join(t.TempDir(), "readahead"), 0
			less := func() {
				t.Helper()
				if err := lessReadahead(sys, kept, []string{dir, dir}, func(_ string, kib int) {
					is(c.old) // what it was is known before it is changed
					if text, err := os.ReadFile(kept); err != nil || !strings.HasPrefix(string(text), strings.TrimSpace(c.old)+" ") {
						t.Errorf("kept is %q, %v", text, err)
					}
					if told++; fmt.Sprintln(kib) != c.old {
						t.Errorf("was %d, want %s", kib, c.old)
					}
				}); err != nil {
					t.Fatal(err)
				}
				is(c.want)
			}
			less()
			lowered := strings.TrimSpace(c.old) != c.want
			if lowered != (told == 1) || told > 1 {
				t.Errorf("told %d times", told)
			}
			for range 2 {
				if err := restoreReadahead(sys, kept); err != nil {
					t.Error(err)
				}
				is(c.old)
			}
			if _, err := os.Stat(kept); err == nil {
				t.Error("the file is left")
			}
			if !lowered {
				return
			}
			less()
			if err := os.WriteFile(file, []byte("333"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := restoreReadahead(sys, kept); err != nil {
				t.Error(err)
			}
			is("333") // somebody has set it meanwhile
		})
	}
	kept := filepath.Join(t.TempDir(), "readahead")
	if err := lessReadahead(t.TempDir(), kept, []string{filepath.Join(dir, "none")}, nil); err == nil {
		t.Error("a directory that is not there gives no error")
	}
	// Half a line, and a file elsewhere, are none that was changed.
	other := filepath.Join(t.TempDir(), "bdi/read_ahead_kb")
	if err := errors.Join(os.Mkdir(filepath.Dir(other), 0o755), os.WriteFile(other, []byte("128"), 0o644), os.WriteFile(kept, []byte("5 "+other+"\n40"), 0o600), restoreReadahead("/sys", kept)); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "128" {
		t.Errorf("a file that is no disk's has %q, %v", b, err)
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

func TestDropped(t *testing.T) {
	if n, err := strconv.Atoi(dropped("/proc")); err != nil || n < 0 {
		t.Errorf("here the page cache was dropped %d times, %v", n, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "vmstat"), []byte("nr_free_pages 7\ndrop_pagecache 12\ndrop_slab 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := dropped(dir); n != "12" {
		t.Errorf("the page cache was dropped %q times, want 12", n)
	}
	used := int64(0)
	r := start.Record{{Path: "a", Used: &used}, {Path: "b"}}
	if forgetUsed(r); r[0].Used != nil || r[1].Used != nil || r[0].Path != "a" {
		t.Errorf("record is %+v", r)
	}
}
