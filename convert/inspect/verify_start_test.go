package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/layer"
)

// TestVerifyStartLayer: a start layer that looks right must also be a copy.
func TestVerifyStartLayer(t *testing.T) {
	base := files("d/a", strings.Repeat("A", 10_000), "d/b", "B")
	cs, plain := converted(t, base)
	good, err := convert.Image(t.Context(), cs, plain, convert.Options{BlockSize: blockSize, Record: start.Record{{Path: "d/b"}, {Path: "d/a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if problems := verify(t, cs, *good); len(problems) > 0 {
		t.Fatalf("a good image has problems: %q", problems)
	}
	if n := len(imagetest.Read[ocispec.Manifest](t, cs, *good).Layers); n != 3 {
		t.Fatalf("image has %d layers, want 3", n)
	}
	date := time.Unix(0, 0) // an implicit directory, as the one in base, has none
	for name, c := range map[string]struct {
		entry indextest.Header
		want  string
	}{
		"other content":  {indextest.Header{Name: "d/b", Body: "X"}, `content of "d/b" is not that in the layers below`},
		"other length":   {indextest.Header{Name: "d/b", Body: "BB"}, `"d/b" is not as in the layers below`},
		"other mode":     {indextest.Header{Name: "d/b", Body: "B", Mode: 0o4755}, `"d/b" is not as in the layers below`},
		"one more file":  {indextest.Header{Name: "d/c", Body: "C"}, `"d/c" is not as in the layers below`},
		"a whiteout":     {indextest.Header{Name: "d/.wh.a"}, `"d/a" is not as in the layers below`},
		"a second name":  {indextest.Header{Name: "d/a", Type: '1', Link: "d/b"}, `"d/a" is not as in the layers below`},
		"parent's owner": {indextest.Header{Name: "d", Type: '5', UID: 1, Mtime: date}, `"d" is not as in the layers below`},
	} {
		t.Run(name, func(t *testing.T) {
			var top indextest.Tar
			top.Add(indextest.Header{Name: "d", Type: '5', Mtime: date}, indextest.Header{Name: "d/b", Body: "B"}, c.entry)
			d := lay(t, cs, top.Bytes(), layer.Sections{Index: indexOf(t, top.Bytes())})
			d.Annotations[layer.LabelStart] = "true"
			img := rewrite(t, cs, *good, func(m *ocispec.Manifest, c *ocispec.Image) {
				m.Layers[1], c.RootFS.DiffIDs[1] = d, digest.FromBytes(top.Bytes())
			})
			var found []string
			for _, p := range verify(t, cs, img) {
				if strings.HasPrefix(p, "start layer ") { // the image section, too, is of another layer
					found = append(found, p)
				}
			}
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("problems are\n%s\nwant one with %q", strings.Join(found, "\n"), c.want)
			}
		})
	}
}

// TestVerifyStartLayerForm: what changes nothing may be wrong all the same.
func TestVerifyStartLayerForm(t *testing.T) {
	link := indextest.Header{Name: "l", Type: '2', Link: "a"}
	var base, top indextest.Tar
	base.Add(indextest.Header{Name: "a", Body: "A"}, link)
	top.Add(link)
	cs, plain := converted(t, base.Bytes())
	good, err := convert.Image(t.Context(), cs, plain, convert.Options{BlockSize: blockSize, Record: start.Record{{Path: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := lay(t, cs, top.Bytes(), layer.Sections{Index: indexOf(t, top.Bytes())})
	d.Annotations[layer.LabelStart] = "true"
	for name, c := range map[string]struct {
		edit func(*ocispec.Manifest, *ocispec.Image)
		want string
	}{
		"a link": {func(m *ocispec.Manifest, c *ocispec.Image) {
			m.Layers[1], c.RootFS.DiffIDs[1] = d, digest.FromBytes(top.Bytes())
		}, `"l" is neither a file nor a directory`},
		"too low":      {func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Annotations[layer.LabelStart] = "true" }, "is not right below the index layer"},
		"on the index": {func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[2].Annotations[layer.LabelStart] = "true" }, "is not right below the index layer"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := strings.Join(verify(t, cs, rewrite(t, cs, *good, c.edit)), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("problems are\n%s\nwant one with %q", found, c.want)
			}
		})
	}
}
