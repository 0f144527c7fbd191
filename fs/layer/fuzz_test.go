package layer

import (
	"bytes"
	"testing"

	"github.com/containerd/errdefs"
)

// refused fails the test unless err is one that a parser may give.
func refused(t *testing.T, err error) {
	if !errdefs.IsInvalidArgument(err) && !errdefs.IsDataLoss(err) && !errdefs.IsNotImplemented(err) {
		t.Errorf("got %v", err)
	}
}

// FuzzParseMeta tries p as a section, and as a body with a right header.
func FuzzParseMeta(f *testing.F) {
	metaBody, _ := goodBodies(f)
	f.Add(metaBody)
	for _, p := range hostileHeaders(raw(kindMeta, metaBody)) {
		f.Add(p)
	}
	for _, b := range hostileMetas(metaBody) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 128<<10 {
			return // raw takes no more
		}
		if _, err := ParseMeta(p); err != nil {
			refused(t, err)
		}
		m, err := ParseMeta(raw(kindMeta, p))
		if err != nil {
			refused(t, err)
			return
		}
		if again, err := encodeMeta(m); err != nil || !bytes.Equal(again, p) {
			t.Errorf("body %x is written as %x (%v)", p, again, err)
		}
	})
}

// FuzzParseImage tries p as a section, and as a body with a right header.
func FuzzParseImage(f *testing.F) {
	_, imageBody := goodBodies(f)
	f.Add(imageBody)
	for _, p := range hostileHeaders(raw(kindImage, imageBody)) {
		f.Add(p)
	}
	for _, b := range hostileImages(imageBody) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 128<<10 {
			return // raw takes no more
		}
		if _, err := ParseImage(p); err != nil {
			refused(t, err)
		}
		m, err := ParseImage(raw(kindImage, p))
		if err != nil {
			refused(t, err)
			return
		}
		if again, err := encodeImage(m); err != nil || !bytes.Equal(again, p) {
			t.Errorf("body %x is written as %x (%v)", p, again, err)
		}
	})
}
