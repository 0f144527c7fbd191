package layer

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

const sumA, sumB, sumC = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
	"sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

// goodLabels are the annotations of an index layer of 1000 bytes.
func goodLabels() map[string]string {
	return map[string]string{
		"containerd.io/snapshot/faasnet/version":      "1",
		"containerd.io/snapshot/faasnet/layer.digest": sumA,
		"containerd.io/snapshot/faasnet/layer.size":   "1000",
		"containerd.io/snapshot/faasnet/meta.digest":  sumB,
		"containerd.io/snapshot/faasnet/meta.range":   "9-100",
		"containerd.io/snapshot/faasnet/image.digest": sumC,
		"containerd.io/snapshot/faasnet/image.range":  "109-891",
	}
}

func TestFromLabels(t *testing.T) {
	l := goodLabels()
	l["containerd.io/snapshot.ref"] = "sha256:0"
	l[prefix+"more"] = "of another version"
	got, err := FromLabels(l)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(c byte) (s block.Sum) {
		for i := range s {
			s[i] = c
		}
		return s
	}
	want := Info{
		Version: 1, Digest: sumA, Size: 1000,
		Meta:  block.Ref{Blob: sumA, Number: block.Section, Offset: 9, Size: 100, Sum: sum(0xbb)},
		Image: &block.Ref{Blob: sumA, Number: block.Section, Offset: 109, Size: 891, Sum: sum(0xcc)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !maps.Equal(got.Annotations(), goodLabels()) {
		t.Errorf("annotations are %v", got.Annotations())
	}
}

func TestStartLayer(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": false, "false": false, "1": false} {
		l := goodLabels()
		l[LabelStart] = value
		got, err := FromLabels(l)
		if err != nil || got.Start != want {
			t.Errorf("%q: %v, %v", value, got.Start, err)
		}
		if want && !maps.Equal(got.Annotations(), l) {
			t.Errorf("annotations are %v", got.Annotations())
		}
	}
}

// belowLabels are the annotations of a layer that lies below that of goodLabels.
func belowLabels(above string) map[string]string {
	l := goodLabels()
	delete(l, keyImageDigest)
	delete(l, keyImageRange)
	l["containerd.io/snapshot/faasnet/above"] = above
	return l
}

func TestAbove(t *testing.T) {
	index, err := FromLabels(goodLabels())
	if err != nil {
		t.Fatal(err)
	}
	const value = sumA + "/1000/" + sumC + "/109-891"
	for _, start := range []digest.Digest{"", sumB} {
		l := belowLabels(value)
		if start != "" {
			l = belowLabels(value + "/" + sumB)
		}
		got, err := FromLabels(l)
		if want := AboveOf(index, start); err != nil || got.Above == nil || *got.Above != want {
			t.Errorf("got %+v, %v, want %+v", got.Above, err, want)
		}
		if !maps.Equal(got.Annotations(), l) {
			t.Errorf("annotations are %v", got.Annotations())
		}
		WithAbove(l, nil)
		if got, err := FromLabels(l); err != nil || got.Above != nil {
			t.Errorf("taken out: %+v, %v", got.Above, err)
		}
		WithAbove(l, &Above{index.Digest, index.Size, *index.Image, start})
		if !maps.Equal(got.Annotations(), l) {
			t.Errorf("put in: %v", l)
		}
	}
	l := goodLabels()
	l[LabelAbove] = "whatever"
	if got, err := FromLabels(l); err != nil || got.Above != nil {
		t.Errorf("an index layer has nothing above it: %+v, %v", got.Above, err)
	}
}

func TestSE06_HostileAbove(t *testing.T) {
	for _, value := range []string{
		"", "/", "////", sumA, sumA + "/1000/" + sumC,
		sumA + "/1000/" + sumC + "/109-891/",
		sumA + "/1000/" + sumC + "/109-891/" + sumB + "/",
		sumA + "/1000/" + sumC + "/109-891/sha256:bb",
		"/1000/" + sumC + "/109-891",
		sumA + "//" + sumC + "/109-891",
		sumA + "/0/" + sumC + "/109-891",
		sumA + "/999/" + sumC + "/109-891",
		sumA + "/01000/" + sumC + "/109-891",
		sumA + "/1000//109-891",
		sumA + "/1000/" + sumC + "/109-31",
		sumA + "/1000/" + sumC + "/110-891",
		strings.Repeat(sumA+"/", 50),
	} {
		_, err := FromLabels(belowLabels(value))
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), LabelAbove) || len(err.Error()) > 400 {
			t.Errorf("%.100q: %v", value, err)
		}
	}
}

func TestFromLabelsOfOtherLayers(t *testing.T) {
	for name, l := range map[string]map[string]string{
		"none":    nil,
		"others":  {"containerd.io/snapshot.ref": "sha256:0", "containerd.io/snapshot/stargz/toc.digest": sumA},
		"unknown": {prefix + "more": "x"},
	} {
		if _, err := FromLabels(l); !errdefs.IsNotFound(err) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
}

// badLabels are single changes to goodLabels that must be refused. "-" takes
// the key away.
var badLabels = []struct{ key, value string }{
	{keyVersion, "-"},
	{keyVersion, ""},
	{keyVersion, "0"},
	{keyVersion, "01"},
	{keyVersion, "2"},
	{keyVersion, "1.0"},
	{keyVersion, strings.Repeat("9", 4096)},
	{keyDigest, "-"},
	{keyDigest, ""},
	{keyDigest, "sha256:"},
	{keyDigest, sumA[:70]},
	{keyDigest, sumA + "a"},
	{keyDigest, strings.ToUpper(sumA)},
	{keyDigest, "sha256:" + strings.Repeat("A", 64)},
	{keyDigest, "sha256:" + strings.Repeat("g", 64)},
	{keyDigest, "sha512:" + strings.Repeat("a", 128)},
	{keyDigest, "sha256:../../../../../../../../../../../../../../../../../etc/passwd"},
	{keySize, "-"},
	{keySize, "0"},
	{keySize, "-1"},
	{keySize, "+1000"},
	{keySize, " 1000"},
	{keySize, "01000"},
	{keySize, "0x3e8"},
	{keySize, "1_000"},
	{keySize, "1e3"},
	{keySize, "999"}, // the image section ends at 1000
	{keySize, "9223372036854775808"},
	{keySize, "18446744073709551616"},
	{keyMetaDigest, "-"},
	{keyMetaDigest, "sha256:bb"},
	{keyMetaRange, "-"},
	{keyMetaRange, ""},
	{keyMetaRange, "9"},
	{keyMetaRange, "9-"},
	{keyMetaRange, "-100"},
	{keyMetaRange, "9-100-1"},
	{keyMetaRange, "9--100"},
	{keyMetaRange, "-9-100"},
	{keyMetaRange, "9-+100"},
	{keyMetaRange, "9 - 100"},
	{keyMetaRange, "9-0"},
	{keyMetaRange, "9-31"}, // shorter than the shortest section
	{keyMetaRange, "901-100"},
	{keyMetaRange, "1000-100"},
	{keyMetaRange, "9223372036854775807-100"},
	{keyMetaRange, "9223372036854775808-100"},
	{keyMetaRange, "9-9223372036854775807"},
	{keyMetaRange, "9-18446744073709551615"},
	{keyMetaRange, "0-67108865"},
	{keyImageDigest, "-"},
	{keyImageDigest, ""},
	{keyImageRange, "-"},
	{keyImageRange, "108-891"}, // overlaps the metadata section
	{keyImageRange, "110-891"},
	{keyImageRange, "1000-0"},
}

func TestSE06_HostileLabels(t *testing.T) {
	for _, c := range badLabels {
		l := goodLabels()
		if l[c.key] = c.value; c.value == "-" {
			delete(l, c.key)
		}
		_, err := FromLabels(l)
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s = %.50q: got %v, want ErrInvalidArgument", c.key, c.value, err)
			continue
		}
		key := c.key
		switch {
		case key == keySize && c.value == "999":
			key = keyImageRange // it is what lies outside now
		case key == keyVersion && c.value == "-":
			key = keyDigest
		}
		short := strings.TrimSuffix(c.value[:min(len(c.value), 100)], "-")
		if !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), short) {
			t.Errorf("%s = %.50q: the error does not name key and value: %v", c.key, c.value, err)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: the error has %d bytes", c.key, len(err.Error()))
		}
	}
}

// TestSectionLargerThanAllowed needs a layer that could hold it.
func TestSectionLargerThanAllowed(t *testing.T) {
	l := goodLabels()
	l[keySize] = "1000000000000"
	delete(l, keyImageDigest)
	delete(l, keyImageRange)
	for size, ok := range map[string]bool{"67108864": true, "67108865": false, "4294967395": false} {
		l[keyMetaRange] = "9-" + size
		if _, err := FromLabels(l); (err == nil) != ok || (!ok && !errdefs.IsInvalidArgument(err)) {
			t.Errorf("section of %s bytes: got %v", size, err)
		}
	}
}

// TestKC01_LabelsAreShort holds the largest annotations against containerd's limit
// of 4096 bytes for key and value.
func TestKC01_LabelsAreShort(t *testing.T) {
	l := goodLabels()
	l[keySize] = "9223372036854775807"
	l[keyImageRange] = "9223372036787666943-67108864"
	i, err := FromLabels(l)
	if err != nil {
		t.Fatal(err)
	}
	below := Info{Version: 1, Digest: sumA, Size: 1, Meta: i.Meta, Above: &Above{i.Digest, i.Size, *i.Image, sumB}}
	all := i.Annotations()
	all[LabelAbove] = below.Annotations()[LabelAbove]
	for k, v := range all {
		if len(k)+len(v) > 384 {
			t.Errorf("%s has %d bytes", k, len(k)+len(v))
		}
	}
}

func FuzzFromLabels(f *testing.F) {
	add := func(l map[string]string) {
		f.Add(l[keyVersion], l[keyDigest], l[keySize], l[keyMetaDigest], l[keyMetaRange], l[keyImageDigest], l[keyImageRange], l[LabelAbove])
	}
	add(goodLabels())
	add(belowLabels(sumA + "/1000/" + sumC + "/109-891/" + sumB))
	for _, c := range badLabels {
		l := goodLabels()
		l[c.key] = c.value
		add(l)
	}
	f.Fuzz(func(t *testing.T, version, dgst, size, metaDigest, metaRange, imageDigest, imageRange, above string) {
		l := map[string]string{keyVersion: version, keyDigest: dgst, keySize: size, keyMetaDigest: metaDigest, keyMetaRange: metaRange}
		if imageDigest != "" || imageRange != "" {
			l[keyImageDigest], l[keyImageRange] = imageDigest, imageRange
		} else if above != "" {
			l[LabelAbove] = above
		}
		i, err := FromLabels(l)
		if err != nil {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("got %v, want ErrInvalidArgument", err)
			}
			return
		}
		if !maps.Equal(i.Annotations(), l) {
			t.Errorf("%v is read as %+v", l, i)
		}
		for _, r := range []*block.Ref{&i.Meta, i.Image} {
			if r != nil && (r.Offset < 0 || r.Size < 1 || r.Size > block.MaxSection || r.Offset+int64(r.Size) > i.Size || r.Offset+int64(r.Size) < 0) {
				t.Errorf("%v: section %+v", l, *r)
			}
		}
		if a := i.Above; a != nil && (a.Image.Blob != a.Index || a.Image.Offset+int64(a.Image.Size) > a.Size) {
			t.Errorf("%v: above %+v", l, *a)
		}
	})
}
