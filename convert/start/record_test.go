package start_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/convert/start"
)

func paths(r start.Record) []string {
	var out []string
	for _, e := range r {
		out = append(out, e.Path)
	}
	return out
}

func TestRead(t *testing.T) {
	// As ctr-remote and nerdctl write it, and with what is tolerated.
	const text = `{"path":"usr/bin/python3","manifestDigest":"sha256:aa","layerIndex":3}
{"path":"/etc//passwd","layerIndex":0}

{"path":"./usr/bin/python3"}
{"path":"big","usedBytes":12,"unknown":{"x":[1]}}
`
	r, err := start.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"usr/bin/python3", "etc/passwd", "big"}; !slices.Equal(paths(r), want) {
		t.Errorf("paths are %q, want %q", paths(r), want)
	}
	if r[0].Manifest != "sha256:aa" || r[0].Used != nil || r[2].Used == nil || *r[2].Used != 12 {
		t.Errorf("record is %+v", r)
	}
}

func TestReadRefuses(t *testing.T) {
	good := `{"path":"a"}` + "\n"
	for name, text := range map[string]string{
		"line 2: no JSON":       good + "usr/bin/python3\n",
		"line 2: another type":  good + `{"path":7}`,
		"line 2: no path":       good + `{"manifestDigest":"sha256:aa"}`,
		"line 2: the root":      good + `{"path":"/"}`,
		"line 2: leads out":     good + `{"path":"a/../../b"}`,
		"line 2: NUL":           good + `{"path":"a\u0000"}`,
		"line 2: two on a line": good + `{"path":"b"}{"path":"c"}`,
		"line 2: used":          good + `{"path":"b","usedBytes":-1}`,
		"line 3: too long":      good + "\n" + `{"path":"` + strings.Repeat("x", 1<<17) + `"}`,
		"names no file":         "\n\n",
	} {
		where, _, _ := strings.Cut(name, ": ")
		if _, err := start.Read(strings.NewReader(text)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// TestBytes: a path that is no UTF-8 is in pathBytes, and path is what tools for
// eStargz can have of it.
func TestBytes(t *testing.T) {
	var text bytes.Buffer
	want := []string{"caf\xe9", "caf\ufffd", "\xff/\x80<&>"}
	if err := record(want...).Write(&text); err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(text.String(), "\n"); line != `{"path":"caf\ufffd","pathBytes":"Y2Fm6Q=="}` {
		t.Errorf("line is %s", line)
	}
	r, err := start.Read(&text)
	if err != nil || !slices.Equal(paths(r), want) {
		t.Errorf("paths are %q, %v, want %q", paths(r), err, want)
	}
	for _, bad := range []string{"Li4v", "AA==", "Lw==", "no base64"} { // ../, NUL, /
		if _, err := start.Read(strings.NewReader(`{"path":"a","pathBytes":"` + bad + `"}`)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: error is %v", bad, err)
		}
	}
}

// endless is a record without end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, `{"path":"a"}`+"\n")
	e.read += n
	return n, nil
}

func TestRecordsAreBounded(t *testing.T) {
	var e endless
	if _, err := start.Read(&e); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "more than 16 MiB") || e.read > start.MaxBytes+100 {
		t.Errorf("error is %v after %d bytes", err, e.read)
	}
	if _, err := start.Read(strings.NewReader(strings.Repeat("\n", start.MaxBytes-12) + `{"path":"a"}`)); err != nil {
		t.Errorf("a record of %d bytes: %v", start.MaxBytes, err)
	}
	long := record(strings.Repeat("x", start.MaxBytes/2), strings.Repeat("y", start.MaxBytes/2))
	var text bytes.Buffer
	if err := long.Write(&text); !errdefs.IsInvalidArgument(err) || text.Len() > 0 {
		t.Errorf("writing more gives %v and %d bytes", err, text.Len())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"path":"usr/bin/python3","manifestDigest":"sha256:aa","layerIndex":3}`))
	f.Add([]byte("{\"path\":\"a\"}\n\n{\"path\":\"/b/./c\",\"usedBytes\":4096}\r\n"))
	f.Add([]byte(`{"path":"\ud800<&>"}`))
	f.Add([]byte(`{"path":"caf","pathBytes":"Y2Fm6Q=="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := start.Read(bytes.NewReader(text))
		if err != nil {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("error is %v", err)
			}
			return
		}
		seen := make(map[string]bool)
		for _, e := range r {
			if e.Path == "" || e.Path[0] == '/' || slices.Contains(strings.Split(e.Path, "/"), "..") || seen[e.Path] {
				t.Errorf("path %q", e.Path)
			}
			seen[e.Path] = true
		}
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := start.Read(&out)
		if err != nil || !slices.Equal(paths(again), paths(r)) {
			t.Errorf("written and read again: %v, %q, want %q", err, paths(again), paths(r))
		}
	})
}
