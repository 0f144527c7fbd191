package results

import (
	"os"
	"path/filepath"
	"testing"
)

// What work costs may lie beside results, as it is kept and as --json has it.
func TestConstantsAreNoResults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kept.json":    `{"machine":{"kernel":"6"},"costs":{"send":1},"functions":{}}`,
		"results.json": `{"machine":{"kernel":"6"},"args":["sim","constants","--json","x"],"rows":[{"image":"b"}],"summary":[{"image":"b"}]}`,
		"many.json":    `{"machine":{"kernel":"6"},"args":["sim","many"],"rows":[{"image":"b"}],"summary":[{"image":"b"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Load(dir)
	if err != nil || len(files) != 1 || files[0].Name != "many.json" {
		t.Errorf("loaded %+v, %v", files, err)
	}
}
