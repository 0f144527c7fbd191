package sim

import (
	"flag"
	"testing"
)

// Main ends the program after f, which is a test of it: only a test has virtual
// time. The exit status is 0 if nothing has failed; what has is printed.
func Main(f func(*testing.T)) {
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the program's own arguments are not for it
		panic(err)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "sim", F: f}}, nil, nil)
}
