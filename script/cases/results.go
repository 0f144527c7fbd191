package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// results is what tests say about cases.
type results struct {
	passed  map[string]bool     // case id -> a test that names it passed
	against map[string][]string // case id -> tests that name it and did not pass
	skipped []string
}

func newResults() *results {
	return &results{passed: map[string]bool{}, against: map[string][]string{}}
}

var (
	inName = regexp.MustCompile(`(?:^|[^A-Z])([A-Z]{2})-?(\d\d)(?:\D|$)`)
	inList = regexp.MustCompile(`^\|\s*([A-Z]{2}-\d\d)\s*\|`)
)

// ids returns the cases that the name of a test names.
func ids(test string) (ids []string) {
	for len(test) > 0 {
		m := inName.FindStringSubmatchIndex(test)
		if m == nil {
			break
		}
		ids = append(ids, test[m[2]:m[3]]+"-"+test[m[4]:m[5]])
		test = test[m[5]:]
	}
	return ids
}

func (r *results) read(in io.Reader) error {
	return events(in, func(e event) {
		if e.Test == "" {
			return
		}
		name := e.Package + " " + e.Test
		if e.Action == "skip" {
			r.skipped = append(r.skipped, name)
		}
		for _, id := range ids(e.Test) {
			switch e.Action {
			case "pass":
				r.passed[id] = true
			case "fail", "skip":
				r.against[id] = append(r.against[id], name+": "+e.Action)
			}
		}
	})
}

// report prints how the cases stand; it fails unless all are proven and
// nothing was skipped.
func (r *results) report(w io.Writer, cases []string) error {
	proven := 0
	for _, id := range cases {
		switch against := r.against[id]; {
		case len(against) > 0:
			fmt.Fprintf(w, "%s: %s\n", id, strings.Join(against, ", "))
		case !r.passed[id]:
			fmt.Fprintf(w, "%s: no test\n", id)
		default:
			proven++
		}
	}
	for _, name := range r.skipped {
		fmt.Fprintf(w, "skipped: %s\n", name)
	}
	fmt.Fprintf(w, "cases: %d of %d have a passing test\n", proven, len(cases))
	if proven < len(cases) || len(r.skipped) > 0 {
		return fmt.Errorf("%d cases without a passing test, %d tests skipped", len(cases)-proven, len(r.skipped))
	}
	return nil
}

// readList reads the ids in the first column of a Markdown table.
func readList(path string) ([]string, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []string
	for line := range strings.Lines(string(p)) {
		if m := inList.FindStringSubmatch(line); m != nil {
			if slices.Contains(cases, m[1]) {
				return nil, fmt.Errorf("%s: %s stands there twice", path, m[1])
			}
			cases = append(cases, m[1])
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s: no case", path)
	}
	return cases, nil
}
