package convert_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/imagetest"
)

func TestCF16_ReadersThatAreOdd(t *testing.T) {
	tar := tarOf(16, 20, 30_000)
	types := []string{ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageLayerGzip, images.MediaTypeDockerSchema2LayerZstd}
	plain := func(p []byte, off int64, blob []byte) (int, error) {
		if off >= int64(len(blob)) {
			return 0, io.EOF
		}
		return copy(p, blob[off:]), nil
	}
	oneByte := func(p []byte, off int64, blob []byte) (int, error) { return plain(p[:min(1, len(p))], off, blob) }
	withEOF := func(p []byte, off int64, blob []byte) (int, error) {
		n, err := plain(p, off, blob)
		if off+int64(n) == int64(len(blob)) {
			err = io.EOF
		}
		return n, err
	}
	for _, mt := range types {
		cs := newStore(t)
		blob := imagetest.Compress(t, mt, tar)
		src := imagetest.Blob(t, cs, mt, blob)
		want, err := convert.Layer(t.Context(), odd{cs, plain}, src, convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func([]byte, int64, []byte) (int, error){"1 byte": oneByte, "with EOF": withEOF} {
			t.Run(name+" "+mt, func(t *testing.T) {
				got, err := convert.Layer(t.Context(), odd{cs, read}, src, convert.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got.Digest != want.Digest {
					t.Errorf("converted layer is %v, want %v", got.Digest, want.Digest)
				}
			})
		}
		for name, end := range map[string]int{"60 per cent": len(blob) * 6 / 10, "at a record": len(blob) * 6 / 10 / 512 * 512, "nothing": 0} {
			t.Run("ends early "+name+" "+mt, func(t *testing.T) {
				cs := newStore(t)
				src := imagetest.Blob(t, cs, mt, blob)
				_, err := convert.Layer(t.Context(), odd{cs, func(p []byte, off int64, blob []byte) (int, error) { return plain(p, off, blob[:end]) }}, src, convert.Options{})
				if text := fmt.Sprintf("short layer: got %d of %d", end, len(blob)); err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("error is %v, want %q", err, text)
				}
				if n := blobs(t, cs); n != 1 {
					t.Errorf("content store has %d blobs and ingests, want the source only", n)
				}
			})
		}
		t.Run("one byte wrong "+mt, func(t *testing.T) {
			cs := newStore(t)
			src := imagetest.Blob(t, cs, mt, blob)
			_, err := convert.Layer(t.Context(), odd{cs, func(p []byte, off int64, blob []byte) (int, error) {
				n, err := plain(p, off, blob)
				if at := int64(len(blob) / 2); off <= at && at < off+int64(n) {
					p[at-off] ^= 1
				}
				return n, err
			}}, src, convert.Options{})
			if !errdefs.IsDataLoss(err) || !strings.Contains(err.Error(), src.Digest.String()) {
				t.Errorf("error is %v, want data loss that names the blob", err)
			}
			if n := blobs(t, cs); n != 1 {
				t.Errorf("content store has %d blobs and ingests, want the source only", n)
			}
		})
	}
}

func TestWrongDiffID(t *testing.T) {
	cs := newStore(t)
	l := imagetest.Layer{Tar: tarOf(1, 3, 10), Blob: imagetest.Compress(t, ocispec.MediaTypeImageLayerGzip, tarOf(2, 3, 10))}
	_, err := convert.Image(t.Context(), cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{l}}), convert.Options{})
	if !errdefs.IsDataLoss(err) {
		t.Errorf("error is %v, want data loss", err)
	}
}
