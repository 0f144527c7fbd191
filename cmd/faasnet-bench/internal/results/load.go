// Package results turns what the lab has measured into docs/benchmarks.md: it
// reads the files of --json, sums up and compares, and says what is missing.
package results

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is one file of results.
type File struct {
	Name    string // without the directory
	Machine Machine
	Args    []string
	Summary []Row
	Text    []byte // all of it

	constants bool // what work costs in virtual time, which is no result: kept, or of --json
}

// Machine is where and with what something was measured.
type Machine struct {
	Kernel   string            `json:"kernel"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	MemoryMB uint64            `json:"memory_mb"`
	Go       string            `json:"go"`
	Revision string            `json:"revision"`
	TCP      string            `json:"tcp"`
	Versions map[string]string `json:"versions"`
}

// Load reads all results of a directory, in the order of their names. Files
// that are something else are an error: a figure must not get lost quietly.
func Load(dir string) ([]File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no results: %w", dir, os.ErrNotExist)
	}
	slices.Sort(names)
	var files []File
	for _, name := range names {
		p, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f := File{Name: filepath.Base(name), Text: p}
		if err := json.Unmarshal(p, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if f.constants {
			continue
		}
		if len(f.Args) == 0 || f.Machine.Kernel == "" {
			return nil, fmt.Errorf("%s: no results of faasnet-bench", name)
		}
		files = append(files, f)
	}
	return files, nil
}

// UnmarshalJSON reads what --json writes.
func (f *File) UnmarshalJSON(p []byte) error {
	var v struct {
		Machine Machine
		Args    []string
		Summary []Row
		Costs   json.RawMessage
	}
	if err := json.Unmarshal(p, &v); err != nil {
		return err
	}
	f.Machine, f.Args, f.Summary = v.Machine, v.Args, v.Summary
	f.constants = len(v.Args) == 0 && len(v.Costs) > 0 || len(v.Args) > 0 && f.Command() == "sim constants"
	return nil
}

// Command is what measured: "compare", "figure 14".
func (f File) Command() string {
	if len(f.Args) > 1 && (f.Args[0] == "figure" || f.Args[0] == "sim") {
		return f.Args[0] + " " + f.Args[1]
	}
	return f.Args[0]
}

// Line is the command line, without the directories of files.
func (f File) Line() string {
	line := []string{"faasnet-bench"}
	for _, a := range f.Args {
		if strings.Contains(a, "/") && !strings.Contains(a, ":") {
			flag, path, ok := strings.Cut(a, "=")
			if !ok {
				flag, path = "", flag
			} else {
				flag += "="
			}
			a = flag + filepath.Base(path)
		}
		line = append(line, a)
	}
	return strings.Join(line, " ")
}

// of are the files that a command wrote.
func of(files []File, command string) (some []File) {
	for _, f := range files {
		if f.Command() == command {
			some = append(some, f)
		}
	}
	return some
}
