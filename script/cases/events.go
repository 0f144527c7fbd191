package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// events calls f for each event of r. Lines that are no event are given as
// output: a crash of the tool chain may print such.
func events(r io.Reader, f func(event)) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)}
			}
			f(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// printer turns events back into what `go test` prints: the output of
// packages, and that of tests once they fail.
type printer struct {
	w       io.Writer
	verbose bool
	held    map[string]*strings.Builder // by package and test, until its end
}

func newPrinter(w io.Writer, verbose bool) *printer {
	return &printer{w: w, verbose: verbose, held: map[string]*strings.Builder{}}
}

func (p *printer) copy(r io.Reader) error {
	var writeErr error
	write := func(s string) {
		if _, err := io.WriteString(p.w, s); err != nil && writeErr == nil {
			writeErr = err
		}
	}
	err := events(r, func(e event) {
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			switch {
			case e.Test == "" && e.Output != "PASS\n":
				write(e.Output)
			case e.Test != "" && !strings.HasPrefix(e.Output, "=== "):
				if p.held[key] == nil {
					p.held[key] = &strings.Builder{}
				}
				p.held[key].WriteString(e.Output)
			}
		case "pass", "fail", "skip":
			if b := p.held[key]; b != nil && (p.verbose || e.Action != "pass") {
				write(b.String())
			}
			delete(p.held, key)
		}
	})
	for _, b := range p.held { // tests that never ended: a crash, a time-out
		write(b.String())
	}
	if err == nil {
		err = writeErr
	}
	return err
}
