package start_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

type hdr = indextest.Header

// entries lists the entries of a tar stream.
func entries(t *testing.T, b []byte) []string {
	t.Helper()
	var out []string
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		name := h.Name
		if h.Typeflag == tar.TypeLink {
			name += " = " + h.Linkname
		}
		out = append(out, name)
	}
}

func TestPlan(t *testing.T) {
	long := strings.Repeat("n", 200) + "/" + strings.Repeat("m", 250)
	var base, top indextest.Tar
	base.Add(
		hdr{Name: "usr", Type: tar.TypeDir, Mode: 0o711, UID: 7, Mtime: time.Unix(1e9, 123456789)},
		hdr{Name: "usr/bin", Type: tar.TypeDir, Xattrs: map[string]string{"user.d": "\x00\xff"}},
		hdr{Name: "usr/bin/sudo", Body: "old", Mode: 0o4755},
		hdr{Name: "usr/bin/three", Body: "333"},
		hdr{Name: "a", Type: tar.TypeLink, Link: "usr/bin/three"},
		hdr{Name: "usr/lib/z", Type: tar.TypeLink, Link: "usr/bin/three"},
		hdr{Name: "gone", Body: "gone"},
		hdr{Name: "pair", Body: "pair"}, hdr{Name: "pair2", Type: tar.TypeLink, Link: "pair"},
		hdr{Name: "empty"}, hdr{Name: "bin", Type: tar.TypeSymlink, Link: "usr/bin"},
	)
	top.Add(
		hdr{Name: "usr/bin/sudo", Body: "new", Mode: 0o6755, UID: 1 << 30, Mtime: time.Unix(1e9, 5),
			Xattrs: map[string]string{"user.k": "v=w\n", "security.e": ""}},
		hdr{Name: ".wh.gone"}, hdr{Name: ".wh.pair2"}, hdr{Name: long, Body: "long"},
	)
	layers := [][]byte{base.Bytes(), top.Bytes()}
	p, merged := plan(t, record("usr/lib/z", "none", "bin/sudo", "usr/bin", "usr/bin/sudo", "gone", "pair", "empty", "a", long), layers...)
	if want := []string{"none", "bin/sudo", "usr/bin", "gone"}; !slices.Equal(p.Unknown, want) {
		t.Errorf("unknown are %q, want %q", p.Unknown, want)
	}
	if p.Other != 1 || p.Empty != 1 || p.Again != 1 || p.Files() != 3 { // a name of pair is hidden
		t.Errorf("%d files would differ, %d are empty, %d named again, %d taken, want 1, 1, 1 and 3", p.Other, p.Empty, p.Again, p.Files())
	}
	got := write(t, p, merged, layers...)
	want := []string{
		"usr/", "usr/lib/", "usr/bin/", "usr/lib/z", "a = usr/lib/z", "usr/bin/three = usr/lib/z",
		"usr/bin/sudo", strings.Repeat("n", 200) + "/", long,
	}
	if e := entries(t, got); !slices.Equal(e, want) {
		t.Errorf("entries are\n%q, want\n%q", e, want)
	}
	if !bytes.Contains(got, []byte("new")) || bytes.Contains(got, []byte("old")) {
		t.Error("the copy is not of the topmost file")
	}
	if !changesNothing(t, got, layers...) {
		t.Error("containerd refuses the layers")
	}
}

func TestPlanLeavesOutWhatIsLittleUsed(t *testing.T) {
	const size = 1 << 20
	var l indextest.Tar
	for _, name := range []string{"little", "third", "unknown"} {
		l.Add(hdr{Name: name, Body: strings.Repeat("x", size)})
	}
	l.Add(hdr{Name: "small", Body: strings.Repeat("x", size-1)})
	r := record("little", "third", "unknown", "small")
	for i, used := range []int64{size/3 - 1, size / 3, -1, 1} {
		if used >= 0 {
			r[i].Used = &used
		}
	}
	p, merged := plan(t, r, l.Bytes())
	names := entries(t, write(t, p, merged, l.Bytes()))
	if want := []string{"third", "unknown", "small"}; !slices.Equal(names, want) || p.Little != 1 {
		t.Errorf("files are %q, %d left out, want %q", names, p.Little, want)
	}
}

// TestPlanOfAnyName: names need not be UTF-8, and records have them.
func TestPlanOfAnyName(t *testing.T) {
	var l indextest.Tar
	for _, name := range []string{"caf\xe9", "caf\ufffd", "\xff\xfe/\x80"} {
		l.Add(hdr{Name: name, Body: name})
	}
	var text bytes.Buffer
	if err := record("\xff\xfe/\x80", "caf\xe9", "caf\ufffd").Write(&text); err != nil {
		t.Fatal(err)
	}
	r, err := start.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	p, merged := plan(t, r, l.Bytes())
	got := write(t, p, merged, l.Bytes())
	if names := entries(t, got); !slices.Equal(names, []string{"\xff\xfe/", "\xff\xfe/\x80", "caf\xe9", "caf\ufffd"}) {
		t.Errorf("entries are %q", names)
	}
	if !changesNothing(t, got, l.Bytes()) {
		t.Error("containerd refuses the layers")
	}
}

// TestPlanLeavesOutWhatWouldDiffer: what a directory of an upper layer would do
// to copies in it, and sparse files, whose holes a copy would fill.
func TestPlanLeavesOutWhatWouldDiffer(t *testing.T) {
	acl := "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x05\x00\x07\x00\x00\x00" +
		"\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x05\x00\xff\xff\xff\xff"
	var base, top indextest.Tar
	base.Add(hdr{Name: "d", Type: tar.TypeDir}, hdr{Name: "d/f", Body: "F"}, hdr{Name: "e/f", Body: "F"},
		hdr{Name: "sparse", Body: strings.Repeat("s", 512), PAX: map[string]string{
			"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "1024,512", "GNU.sparse.size": "4096", "GNU.sparse.name": "sparse"}})
	top.Add(hdr{Name: "d", Type: tar.TypeDir, Xattrs: map[string]string{"system.posix_acl_default": acl}})
	layers := [][]byte{base.Bytes(), top.Bytes()}
	p, merged := plan(t, record("sparse", "d/f", "e/f"), layers...)
	got := write(t, p, merged, layers...)
	if e := fmt.Sprint(entries(t, got)); e != "[e/ e/f]" || p.Other != 2 {
		t.Errorf("entries are %s, %d others", e, p.Other)
	}
	if !changesNothing(t, got, layers...) {
		t.Error("containerd refuses the layers")
	}
}

// TestSettleEnds: it reads all files of the layer, which may be many.
func TestSettleEnds(t *testing.T) {
	var l indextest.Tar
	below, merged := trees(t, l.Add(hdr{Name: "a", Body: "A"}).Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start.New(merged, record("a")).Settle(ctx, below, merged); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestPlanOfNothing(t *testing.T) {
	var l indextest.Tar
	p, _ := plan(t, record("b", "c/d"), l.Add(hdr{Name: "a", Body: "A"}).Bytes())
	if p.Files() != 0 || len(p.Unknown) != 2 {
		t.Errorf("%d files, unknown are %q", p.Files(), p.Unknown)
	}
	if _, err := start.Read(strings.NewReader("")); err == nil {
		t.Error("an empty record is taken")
	}
}
