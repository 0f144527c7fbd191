package index_test

import (
	"bytes"
	"testing"

	"github.com/faasnet/faasnet/fs/index"
)

// FuzzDecode: no input makes Decode panic or run away, and what it accepts is
// a tree that can be merged and written again.
func FuzzDecode(f *testing.F) {
	for _, l := range seeds() {
		img, err := fromTar(f, l)[0].Encode(lengths(l))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(img, int64(len(l)))
		f.Add(img[:2048], int64(len(l)))
		f.Add(img, int64(512))
	}
	f.Fuzz(func(t *testing.T, img []byte, device int64) {
		if len(img) > 1<<20 {
			return
		}
		img = bytes.Clone(img)
		seal(img)
		devices := []int64{device}
		tree, err := index.Decode(img, devices)
		if cerr := index.Check(img, devices); (cerr == nil) != (err == nil) {
			t.Fatalf("Decode: %v, Check: %v", err, cerr)
		}
		if err != nil {
			return
		}
		again, err := tree.Encode(devices)
		if err != nil {
			t.Fatalf("Encode of a decoded tree: %v", err)
		}
		if err := index.Check(again, devices); err != nil {
			t.Fatalf("Check of an encoded tree: %v", err)
		}
		if _, err := index.Merge([]*index.Tree{tree, tree}, tree); err != nil {
			t.Fatalf("Merge: %v", err)
		}
	})
}

// FuzzFromTar: a tree from any tar can be written, and the result passes.
func FuzzFromTar(f *testing.F) {
	for _, l := range seeds() {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, l []byte) {
		tree, err := index.FromTar(bytes.NewReader(l))
		if err != nil {
			return
		}
		img, err := tree.Encode(lengths(l))
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		decoded, err := index.Decode(img, lengths(l))
		if err != nil {
			t.Fatalf("Decode: %v", err)
		}
		again, err := decoded.Encode(lengths(l))
		if err != nil || !bytes.Equal(img, again) {
			t.Fatalf("Encode(Decode(img)) differs from img: %v", err)
		}
	})
}

// seeds are small layers: a fuzzer works on small inputs.
func seeds() [][]byte {
	l, _ := sparse("0.1")
	at := bytes.Index(l, []byte("PaxHeader"))
	return [][]byte{
		layer(file("a", "a")), cf02(), l[at:],
		layer(slink("a", "b"), slink("b", "a"), file("d/../c", ""), hdr{Name: "d/.wh..wh..opq"}, hdr{Name: ".wh.x"}),
		layer(hdr{Name: "x", Body: "x", Xattrs: map[string]string{"user.k": "v", "security.capability": capability}}, hdr{Name: "c", Type: '3', Major: 1, Minor: 3}),
	}
}
