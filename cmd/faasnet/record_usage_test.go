package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRecordUsage: what is wrong with a command line is said in one line, before
// containerd is looked for.
func TestRecordUsage(t *testing.T) {
	for hint, args := range map[string][]string{
		"--out is missing":           {"a:1"},
		"--out is missing;":          {"--out", "", "a:1"},
		"options go before IMAGE":    {"a:1", "--out", "/none/f"},
		"options go before IMAGE,":   {"--out", "/none/f", "a:1", "--until", "x"},
		"--until is empty":           {"--out", "/none/f", "--until", "", "a:1"},
		"want more than 0":           {"--out", "/none/f", "--timeout", "0s", "a:1"},
		"want IMAGE":                 {"--out", "/none/f"},
		"not an image in containerd": {"--out", "/none/f", "oci:/none"},
	} {
		out, stderr := faasnet(t, exitUsage, append([]string{"record", "--address", "/none/s"}, args...)...)
		if out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, hint) {
			t.Errorf("%q: %q, %q, want %q", args, out, stderr, hint)
		}
	}
	for _, args := range [][]string{
		{"convert", "oci:/a", "oci:/b", "--json"}, {"verify", "oci:/a", "--json"}, {"inspect", "oci:/a", "--json"}, {"pull", "a:1", "-n", "x"},
	} {
		if _, stderr := faasnet(t, exitUsage, args...); !strings.Contains(stderr, "options go before") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %q", args, stderr)
		}
	}
	faasnet(t, exitUsage, "convert", "--record-in", "", "oci:/a", "oci:/b")
}

// TestRecordOut: what cannot be written is said before anything runs, and stays.
func TestRecordOut(t *testing.T) {
	dir := t.TempDir()
	null, pipe, file := filepath.Join(dir, "null"), filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), unix.Mkfifo(pipe, 0o644),
		os.WriteFile(file, nil, 0o644), os.Symlink(null, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	modes := func() (all []string) {
		for _, name := range []string{null, pipe, file, filepath.Join(dir, "link")} {
			info, err := os.Lstat(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info.Mode().String())
		}
		return all
	}
	before := strings.Join(modes(), " ")
	const inTheWay = "is in the way and no regular file"
	for name, why := range map[string]string{
		null: inTheWay, pipe: inTheWay, filepath.Join(dir, "link"): inTheWay, dir: inTheWay,
		filepath.Join(dir, "none", "f"): "no such file or directory", filepath.Join(file, "f"): "not a directory",
	} {
		_, stderr := faasnet(t, exitError, "record", "--address", "/none/s", "--out", name, "a:1")
		if want := "faasnet: record: --out " + name + ": " + why; !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("error is %q, want %q", stderr, want)
		}
	}
	if after := strings.Join(modes(), " "); after != before {
		t.Errorf("modes are %s, were %s", after, before)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("files are %v, %v", entries, err)
	}
}

func TestRecordNeedsRoot(t *testing.T) {
	cmd := command(t, "record", "--address", "/none/s", "--out", filepath.Join(t.TempDir(), "f"), "a:1")
	args := append([]string{"--bounding-set", "-sys_admin", cmd.Path}, cmd.Args[1:]...)
	less := exec.CommandContext(t.Context(), "setpriv", args...)
	less.Env = cmd.Env
	if out, err := less.CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "faasnet: record: needs root with the capability CAP_SYS_ADMIN") {
		t.Errorf("%v: %s", err, out)
	}
}
