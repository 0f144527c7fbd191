package store

import (
	"os"
	"path/filepath"
	"testing"
)

// RR-06: a cache of another format version is never misread.
func TestRR06_OtherFormatStartsAfresh(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"older":   func(path string) error { return os.WriteFile(path, []byte("faasnet store 0\n"), 0o600) },
		"newer":   func(path string) error { return os.WriteFile(path, []byte("faasnet store 3\n"), 0o600) },
		"torn":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, Options{})
			ref, p := testBlock("a", 0, 5000)
			put(t, s, ref, p)
			f, data := testFlat(t, s, "a", 2)
			for i := range data {
				if err := f.Write(i, data[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if err := change(filepath.Join(root, "version")); err != nil {
				t.Fatal(err)
			}
			s = open(t, root, Options{})
			if u := s.Usage(); u != (Usage{}) {
				t.Errorf("usage %+v of a store that starts afresh", u)
			}
			put(t, s, ref, p)
			s.Close()
			if s = open(t, root, Options{}); !has(t, s, ref, p) {
				t.Error("the new store does not keep blocks")
			}
		})
	}
}
