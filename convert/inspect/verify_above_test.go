package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/start"
)

const keyAbove = "containerd.io/snapshot/faasnet/above"

// says is the end of the problem that a layer says something else than want.
func says(l ocispec.Descriptor, want string) string {
	return fmt.Sprintf("layer %s: annotation %s: %q, want %q", l.Digest, keyAbove, l.Annotations[keyAbove], want)
}

func TestVerifyAbove(t *testing.T) {
	cs, plain := converted(t, files("a", "A"), files("b", "B"))
	started, err := convert.Image(t.Context(), cs, plain, convert.Options{BlockSize: blockSize, Record: start.Record{{Path: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, s := imagetest.Read[ocispec.Manifest](t, cs, plain), imagetest.Read[ocispec.Manifest](t, cs, *started)
	ofPlain, ofStarted := p.Layers[0].Annotations[keyAbove], s.Layers[0].Annotations[keyAbove]
	for name, c := range map[string]struct {
		image ocispec.Descriptor
		says  []string // of the layers, bottom first; "": nothing
		want  []string // of those about which there is a problem
	}{
		"right":                                  {plain, []string{ofPlain, ofPlain, ""}, nil},
		"right with a start layer":               {*started, []string{ofStarted, ofStarted, ofStarted, ""}, nil},
		"of an older version":                    {plain, []string{"", "", ""}, nil},
		"of an older version with a start layer": {*started, []string{"", "", "", ""}, nil},
		"of another image":                       {plain, []string{ofPlain, ofStarted, ""}, []string{"", ofPlain}},
		"of all of another image":                {*started, []string{ofPlain, ofPlain, ofPlain, ""}, []string{ofStarted, ofStarted, ofStarted}},
		"without the start layer":                {*started, []string{ofStarted, ofStarted, ofStarted[:len(ofStarted)-72], ""}, []string{"", "", ofStarted}},
		"not of all":                             {*started, []string{ofStarted, "", ofStarted, ""}, []string{"", ofStarted}},
		"on the index layer":                     {plain, []string{ofPlain, ofPlain, "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			img := rewrite(t, cs, c.image, func(m *ocispec.Manifest, _ *ocispec.Image) {
				for i, l := range m.Layers {
					if l.Annotations[keyAbove] = c.says[i]; c.says[i] == "" {
						delete(l.Annotations, keyAbove)
					}
				}
				for i, w := range c.want {
					if w != "" {
						want = append(want, says(m.Layers[i], w))
					}
				}
			})
			for i, w := range want {
				want[i] = fmt.Sprintf("manifest %s: %s", img.Digest, w)
			}
			if got := verify(t, cs, img); !slices.Equal(got, want) {
				t.Errorf("problems are %q, want %q", got, want)
			}
		})
	}
}

func TestVerifyMalformedAbove(t *testing.T) {
	cs, good := converted(t, files("a", "A"))
	img := rewrite(t, cs, good, func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Annotations[keyAbove] = "x/y" })
	l := imagetest.Read[ocispec.Manifest](t, cs, good).Layers[0]
	want := fmt.Sprintf("manifest %s: layer %s: annotation %s: %q: want 4 or 5 parts", img.Digest, l.Digest, keyAbove, "x/y")
	if got := verify(t, cs, img); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("problems are %q, want one that begins with %q", got, want)
	}
}
