package micro

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/faasnet/faasnet/script/images"
)

// Layered is a generated image.
type Layered struct {
	Layers int
	Files  int // in each layer, of 4 KiB on average
	Blob   int // bytes of one more file in each layer, most of it zeros
	Seed   int // images with different ones share no layer
}

// Name names the image: another recipe has another name.
func (l Layered) Name() string {
	const recipe = 1
	return fmt.Sprintf("layered-%d-%d-%d-%d-%d", recipe, l.Layers, l.Files, l.Blob, l.Seed)
}

// Build writes the image into a new OCI layout below dir.
func (l Layered) Build(ctx context.Context, dir string) (layout string, err error) {
	layout = filepath.Join(dir, l.Name())
	w, err := images.NewWriter(layout)
	if err != nil {
		return "", err
	}
	for i := range l.Layers {
		w.Add(fmt.Sprintf("layer %d", i), func(tw *tar.Writer) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return l.layer(tw, i)
		})
	}
	return layout, w.Close("layered", []string{"/nothing"})
}

func (l Layered) layer(tw *tar.Writer, i int) error {
	r := rand.NewChaCha8([32]byte{'l', byte(l.Seed), byte(i)})
	made := time.Unix(1700000000, 0)
	top := fmt.Sprintf("layer%03d", i)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: top + "/", Mode: 0o755, ModTime: made}); err != nil {
		return err
	}
	file := func(name string, p []byte) error {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: top + "/" + name, Mode: 0o644, Size: int64(len(p)), ModTime: made}); err != nil {
			return err
		}
		_, err := tw.Write(p)
		return err
	}
	for k := range l.Files {
		const mean = 4 << 10
		p := make([]byte, 1+r.Uint64()%(2*mean))
		if _, err := io.ReadFull(r, p[:len(p)/2]); err != nil { // the other half shrinks
			return err
		}
		if err := file(fmt.Sprintf("file%04d", k), p); err != nil {
			return err
		}
	}
	if l.Blob == 0 {
		return nil
	}
	p := make([]byte, l.Blob)
	const part = 8
	if _, err := io.ReadFull(r, p[:len(p)/part]); err != nil {
		return err
	}
	return file("blob", p)
}
