package layer

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// example makes the two files of the worked example in docs/format.md.
func example(t *testing.T) (data, index made) {
	t.Helper()
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: "a", Size: 3000, Mode: 0o644,
		Uname: "root", Gname: "root", ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data = write(t, stream.Bytes(), block.MinSize, Sections{Index: []byte("<layer index>")})
	index = write(t, make([]byte, 1024), block.MinSize, Sections{
		Index: []byte("<empty index>"),
		Image: &Image{Layers: []ImageLayer{data.entry()}, Index: []byte("<image index>")},
	})
	return data, index
}

// fences returns the fenced blocks of docs/format.md with this info string.
func fences(t *testing.T, info string) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+info+"\n(.*?)^```$").FindAllSubmatch(doc, -1) {
		found = append(found, string(m[1]))
	}
	return found
}

// undump returns the bytes of a hex dump: offset, two spaces, bytes, and after
// two more spaces whatever the document says of them.
func undump(t *testing.T, dump string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(dump) {
		offset, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if want := fmt.Sprintf("%08x", len(b)); offset != want {
			t.Fatalf("line %q: offset, want %s", line, want)
		}
		digits, _, _ := strings.Cut(rest, "  ")
		p, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		b = append(b, p...)
	}
	return b
}

// TestWorkedExample holds docs/format.md to what the writer really writes.
func TestWorkedExample(t *testing.T) {
	data, index := example(t)
	metaBody := func(m made) []byte {
		b, err := encodeMeta(&Meta{Table: m.table, Index: m.sections.Index})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	imageBody, err := encodeImage(index.sections.Image)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{data.blob, metaBody(data), index.blob, imageBody}
	dumps := fences(t, "hex")
	if len(dumps) != len(want) {
		t.Fatalf("the document has %d dumps, want %d", len(dumps), len(want))
	}
	for i, d := range dumps {
		if got := undump(t, d); !bytes.Equal(got, want[i]) {
			t.Errorf("dump %d is not what the writer writes:\n%s", i, hex.Dump(want[i]))
		}
	}
	annotations := fences(t, "json")
	for i, m := range []made{data, index} {
		var got map[string]string
		if i >= len(annotations) {
			t.Fatal("the document has too few annotations")
		}
		if err := json.Unmarshal([]byte(annotations[i]), &got); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, m.info.Annotations()) {
			t.Errorf("annotations %d are %v, want %v", i, got, m.info.Annotations())
		}
	}
	doc, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	if id := digest.FromBytes(data.stream).Encoded(); !bytes.Contains(doc, []byte(id)) {
		t.Errorf("the document does not name the stream's digest %s", id)
	}
}
