package rivals

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goModule is a snapshotter that its project publishes as a Go module, without
// its programs: those are modules of their own, which the proxy does not have,
// or replace others, which `go install` refuses. A small main does what they do,
// with the versions of dependencies and the replacements that the module
// itself is built with.
type goModule struct {
	path, version string
	program       string
	main          string   // Go
	requires      []string // what main needs besides, as `go mod edit -require` takes it
}

// file is the program's name in its directory: another version or another
// main is another file.
func (m goModule) file() string {
	const enough = 4
	sum := sha256.Sum256([]byte(m.main + strings.Join(m.requires, "")))
	return fmt.Sprintf("%s-%s-%x", m.program, m.version, sum[:enough])
}

// install builds the program in dir, unless it is there.
func (m goModule) install(ctx context.Context, dir string, log io.Writer) error {
	if exists(filepath.Join(dir, m.file())) {
		return nil
	}
	fmt.Fprintf(log, "building %s of %s %s\n", m.program, m.path, m.version)
	source := filepath.Join(dir, m.file()+".src")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(source)
	var where struct{ Dir, GoMod, Error string }
	out, err := golang(ctx, dir, "mod", "download", "-json", m.path+"@"+m.version)
	if err == nil {
		err = json.Unmarshal(out, &where)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", m.path, m.version, err)
	}
	if err := m.write(source, where.GoMod, where.Dir); err != nil {
		return err
	}
	edit := []string{"mod", "edit", "-require", m.path + "@" + m.version}
	for _, r := range m.requires {
		edit = append(edit, "-require", r)
	}
	if _, err := golang(ctx, source, edit...); err != nil {
		return err
	}
	made := filepath.Join(source, m.program)
	if _, err := golang(ctx, source, "build", "-mod=mod", "-o", made, "."); err != nil {
		return err
	}
	return os.Rename(made, filepath.Join(dir, m.file()))
}

// write lays out the main module: upstream's go.mod without its name and what
// it replaces by directories of its own, and its sums.
func (m goModule) write(source, gomod, upstream string) error {
	p, err := os.ReadFile(gomod)
	if err != nil {
		return err
	}
	var mod strings.Builder
	for line := range strings.Lines(string(p)) {
		switch {
		case strings.HasPrefix(line, "module "):
			mod.WriteString("module rival\n")
		case strings.Contains(line, "=> ./"):
		default:
			mod.WriteString(line)
		}
	}
	sums, err := os.ReadFile(filepath.Join(upstream, "go.sum"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"go.mod": mod.String(), "go.sum": string(sums), "main.go": m.main} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func golang(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off", "CGO_ENABLED=1")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return out, nil
}
