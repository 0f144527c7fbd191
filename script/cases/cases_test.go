package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestIDs(t *testing.T) {
	for name, want := range map[string][]string{
		"TestCF01_HardLink":                    {"CF-01"},
		"TestTokens/RA-03_token_expires":       {"RA-03"},
		"TestCF02_and_CF03":                    {"CF-02", "CF-03"},
		"TestCF-04CF-05":                       {"CF-04", "CF-05"},
		"TestSHA256":                           nil,
		"TestCF123":                            nil,
		"TestX/a_block_of_4_KiB":               nil,
		"TestEachRACaseOfTheRegistry/RA16_429": {"RA-16"},
	} {
		if got := ids(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

const run1 = `{"Action":"run","Package":"p","Test":"TestCF01"}
{"Action":"output","Package":"p","Test":"TestCF01","Output":"=== RUN   TestCF01\n"}
{"Action":"output","Package":"p","Test":"TestCF01","Output":"    quiet\n"}
{"Action":"pass","Package":"p","Test":"TestCF01"}
{"Action":"output","Package":"p","Test":"TestCF02","Output":"    loud\n"}
{"Action":"fail","Package":"p","Test":"TestCF02"}
{"Action":"pass","Package":"p","Test":"TestOther/CF-02"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
no event
{"Action":"output","Package":"q","Test":"TestCF03","Output":"    why\n"}
{"Action":"skip","Package":"q","Test":"TestCF03"}
{"Action":"output","Package":"q","Test":"TestHangs","Output":"    last words\n"}
{"Action":"skip","Package":"empty"}
`

func TestPrinterPrintsWhatGoTestPrints(t *testing.T) {
	var quiet, verbose strings.Builder
	if err := newPrinter(&quiet, false).copy(strings.NewReader(run1)); err != nil {
		t.Fatal(err)
	}
	if want := "    loud\nFAIL\tp\t0.1s\nno event\n    why\n    last words\n"; quiet.String() != want {
		t.Errorf("got %q, want %q", quiet.String(), want)
	}
	if err := newPrinter(&verbose, true).copy(strings.NewReader(run1)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(verbose.String(), "quiet") {
		t.Errorf("verbose is %q", verbose.String())
	}
}

func TestReport(t *testing.T) {
	tested := func(ids ...string) (cases []listed) {
		for _, id := range ids {
			cases = append(cases, listed{id: id})
		}
		return cases
	}
	report := func(events string, cases ...listed) (string, error) {
		r := newResults()
		if err := r.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err := r.report(&b, cases)
		return b.String(), err
	}
	out, err := report(run1, tested("CF-01", "CF-02", "CF-03", "CF-04")...)
	want := "CF-02: p TestCF02: fail\nCF-03: q TestCF03: skip\nCF-04: no test\nskipped: q TestCF03\ncases: 1 of 4 have a passing test\n"
	if out != want || err == nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	passes := `{"Action":"pass","Package":"p","Test":"TestCF01"}` + "\n"
	if _, err := report(passes, tested("CF-01")...); err != nil {
		t.Error(err)
	}
	why := listed{"CF-02", "no such thing"}
	if out, err := report(passes, listed{id: "CF-01"}, why); err != nil || out != "CF-02: not here: no such thing\ncases: 1 of 1 have a passing test\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := report(passes+`{"Action":"pass","Package":"p","Test":"TestCF02"}`, why); err == nil {
		t.Errorf("a case that is said not to be here and has a test: %q", out)
	}
	if out, err := report(run1, why); err == nil {
		t.Errorf("a case that is said not to be here and fails: %q", out)
	}
	if _, err := report(passes+`{"Action":"skip","Package":"p","Test":"TestOther"}`, tested("CF-01")...); err == nil {
		t.Error("a skipped test passes")
	}
}

func TestReadList(t *testing.T) {
	read := func(text string) ([]listed, error) {
		path := filepath.Join(t.TempDir(), "list.md")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return readList(path)
	}
	if got, err := read("| id | must hold |\n| --- | --- |\n| CF-01 | a |\n| RA-02 | see CF-09 |\n| SE-01 | Not here: since. |\n"); err != nil ||
		!slices.Equal(got, []listed{{"CF-01", ""}, {"RA-02", ""}, {"SE-01", "since."}}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := read("nothing"); err == nil {
		t.Error("an empty list is accepted")
	}
	if _, err := read("| CF-01 | a |\n| CF-01 | b |\n"); err == nil {
		t.Error("a double case is accepted")
	}
	if got, err := readList("../../docs/cases.md"); err != nil || len(got) != 119 {
		t.Errorf("the project's list has %d cases, %v", len(got), err)
	}
}
