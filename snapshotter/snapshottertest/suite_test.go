package snapshottertest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMounter(t *testing.T) {
	Test(t, func(t *testing.T) Subject {
		root := t.TempDir()
		m := &Mounter{Dir: filepath.Join(root, "mnt"), Layers: map[string]string{}}
		s := Subject{Mounter: m, File: "dir/two", Content: "second"}
		for name, content := range map[string]string{"one": "first", "two": "second"} {
			dir := filepath.Join(root, name, "dir")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			m.Layers[name] = filepath.Dir(dir)
		}
		for _, name := range []string{"one", "two"} {
			s.Run = append(s.Run, map[string]string{LabelLayer: name})
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(m.Dir); err == nil && len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
		return s
	})
}
