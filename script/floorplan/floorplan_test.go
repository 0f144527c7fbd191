// Package floorplan holds the code to docs/floorplan.md.
package floorplan

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// row is one package of the table.
type row struct {
	name string
	may  []string
}

func TestFloorplan(t *testing.T) {
	plan := readPlan(t, "../../docs/floorplan.md")
	rows := map[string]row{}
	for _, r := range plan {
		for _, imp := range r.may { // so the table itself has no upward import and no cycle
			if _, below := rows[imp]; !below {
				t.Errorf("the row of %s names %s, which has no row above it", r.name, imp)
			}
		}
		if _, twice := rows[r.name]; twice {
			t.Errorf("%s has two rows", r.name)
		}
		rows[r.name] = r
	}
	for _, err := range check(list(t), rows) {
		t.Error(err)
	}
}

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Module     struct{ Path string }
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Module", "./...")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// check returns where packages and rows disagree.
func check(pkgs []pkg, rows map[string]row) (wrong []string) {
	code := map[string]bool{}
	for _, p := range pkgs {
		own := p.Module.Path + "/"
		name := strings.TrimPrefix(p.ImportPath, own)
		code[name] = true
		r, ok := rows[name]
		if !ok {
			wrong = append(wrong, name+" has no row")
			continue
		}
		for _, imp := range p.Imports {
			if imp, ours := strings.CutPrefix(imp, own); ours && !slices.Contains(r.may, imp) {
				wrong = append(wrong, name+" may not import "+imp)
			}
		}
	}
	for name := range rows {
		if !code[name] {
			wrong = append(wrong, name+" has a row but no code")
		}
	}
	return wrong
}

func TestCheckFindsEachFault(t *testing.T) {
	rows := map[string]row{"low": {name: "low"}, "high": {name: "high", may: []string{"low"}}, "gone": {name: "gone"}}
	at := func(name string, imports ...string) pkg {
		return pkg{ImportPath: "m/" + name, Imports: imports, Module: struct{ Path string }{"m"}}
	}
	got := check([]pkg{at("high", "m/low", "fmt"), at("low", "m/high"), at("new")}, rows)
	slices.Sort(got)
	want := []string{"gone has a row but no code", "low may not import high", "new has no row"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func readPlan(t *testing.T, path string) []row {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var plan []row
	for line := range strings.Lines(string(b)) {
		c := strings.Split(line, "|")
		if len(c) == 5 && !strings.Contains(c[1], "---") && strings.TrimSpace(c[1]) != "package" {
			plan = append(plan, row{strings.TrimSpace(c[1]), strings.Fields(strings.ReplaceAll(c[2], ",", " "))})
		}
	}
	if len(plan) == 0 {
		t.Fatal("no row found in " + path)
	}
	return plan
}
