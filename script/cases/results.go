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
	inList = regexp.MustCompile(`^\|\s*([A-Z]{2}-\d\d)\s*\|\s*(?:Not here: (.*?)\s*\|)?`)
)

// listed is a case of the list.
type listed struct {
	id  string
	why string // there is no test of it; empty: there is
}

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

// report prints how the cases stand; it fails unless all that should be are
// proven and nothing was skipped.
func (r *results) report(w io.Writer, cases []listed) error {
	proven, want := 0, 0
	for _, c := range cases {
		against := r.against[c.id]
		if len(against) == 0 && c.why != "" && !r.passed[c.id] {
			fmt.Fprintf(w, "%s: not here: %s\n", c.id, c.why)
			continue
		}
		want++
		switch {
		case len(against) > 0:
			fmt.Fprintf(w, "%s: %s\n", c.id, strings.Join(against, ", "))
		case c.why != "":
			fmt.Fprintf(w, "%s: is said not to be here, and has a test\n", c.id)
		case !r.passed[c.id]:
			fmt.Fprintf(w, "%s: no test\n", c.id)
		default:
			proven++
		}
	}
	for _, name := range r.skipped {
		fmt.Fprintf(w, "skipped: %s\n", name)
	}
	fmt.Fprintf(w, "cases: %d of %d have a passing test\n", proven, want)
	if proven < want || len(r.skipped) > 0 {
		return fmt.Errorf("%d cases without a passing test, %d tests skipped", want-proven, len(r.skipped))
	}
	return nil
}

// readList reads the ids in the first column of a Markdown table.
func readList(path string) ([]listed, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []listed
	for line := range strings.Lines(string(p)) {
		m := inList.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if slices.ContainsFunc(cases, func(c listed) bool { return c.id == m[1] }) {
			return nil, fmt.Errorf("%s: %s stands there twice", path, m[1])
		}
		cases = append(cases, listed{m[1], m[2]})
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s: no case", path)
	}
	return cases, nil
}
