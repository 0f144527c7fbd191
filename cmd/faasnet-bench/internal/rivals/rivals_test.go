package rivals

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreThoseOfTheResults(t *testing.T) {
	var names []string
	tags := map[string]string{} // a tag's image has one form
	for _, s := range All() {
		names = append(names, s.Name)
		form := s.Snapshotter
		if s.Convert == nil {
			form = ""
		}
		if other, had := tags[s.Tag]; had && other != form {
			t.Errorf("tag %s is the image of %q and of %q", s.Tag, other, form)
		}
		tags[s.Tag] = form
		if found, err := Find(s.Name); err != nil || found.Snapshotter != s.Snapshotter || found.Tag != s.Tag {
			t.Errorf("%s: found %+v, %v", s.Name, found, err)
		}
	}
	if want := strings.Fields("overlayfs erofs stargz stargz-nobg soci faasnet-notree faasnet floor"); !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	for _, s := range All() {
		if lazy := s.Ours || strings.HasPrefix(s.Name, "stargz") || s.Name == "soci"; s.Lazy != lazy {
			t.Errorf("%s is lazy: %v", s.Name, s.Lazy)
		}
	}
	if _, err := Find("kraken"); err == nil {
		t.Error("found what is not there")
	}
}

// The main module is built with upstream's versions and replacements, but for
// those that are directories of upstream's.
func TestMainModule(t *testing.T) {
	upstream, source := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/snapshotter\n\ngo 1.26\n\nrequire example.org/a v1.0.0\n\nreplace example.org/part => ./part\n\nreplace example.org/a => example.org/b v1.1.0\n",
		"go.sum": "example.org/b v1.1.0 h1:x\n",
	} {
		if err := os.WriteFile(filepath.Join(upstream, name), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	m := goModule{path: "example.org/snapshotter", version: "v1.2.3", program: "snapshotterd", main: "package main\n"}
	if err := m.write(source, filepath.Join(upstream, "go.mod"), upstream); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"go.mod":  "module rival\n\ngo 1.26\n\nrequire example.org/a v1.0.0\n\n\nreplace example.org/a => example.org/b v1.1.0\n",
		"go.sum":  "example.org/b v1.1.0 h1:x\n",
		"main.go": "package main\n",
	} {
		if got, err := os.ReadFile(filepath.Join(source, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	other := m
	other.main += "\nfunc main() {}\n"
	if m.file() == other.file() {
		t.Error("another main has the same file")
	}
}
