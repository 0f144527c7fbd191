package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/script/images"
)

// made gives the image called name with busybox and these layers on it, whose
// function prints READY. A name has the same layers each time.
func (v *vm) made(name string, layers ...images.Layer) image {
	v.Helper()
	a := v.built("a")
	dir := filepath.Join(v.fill.Dir(), "layout-"+name)
	if _, err := os.Stat(dir); err == nil {
		return v.push(name, dir)
	}
	w := must(images.NewWriter(dir))(v)
	manifest := readManifest(v, a.layout)
	w.Add("busybox", copyLayer(blobPath(a.layout, manifest.Layers[0].Digest)))
	for i, l := range layers {
		w.Add(fmt.Sprintf("layer %d", i), l)
	}
	v.check(w.Close("test", []string{"/bin/sh", "-c", "echo READY"}))
	return v.push(name, dir)
}

func blobPath(layout string, d digest.Digest) string {
	return filepath.Join(layout, "blobs", "sha256", d.Encoded())
}

func readJSON[T any](t testing.TB, path string) (v T) {
	t.Helper()
	p := must(os.ReadFile(path))(t)
	if err := json.Unmarshal(p, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func readManifest(t testing.TB, layout string) ocispec.Manifest {
	t.Helper()
	index := readJSON[ocispec.Index](t, filepath.Join(layout, "index.json"))
	return readJSON[ocispec.Manifest](t, blobPath(layout, index.Manifests[0].Digest))
}

// copyLayer writes the entries of a gzip layer again.
func copyLayer(blob string) images.Layer {
	return func(tw *tar.Writer) error {
		f, err := os.Open(blob)
		if err != nil {
			return err
		}
		defer f.Close()
		zr, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		for tr := tar.NewReader(zr); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(tw, tr); err != nil {
				return err
			}
		}
	}
}

// entries is a layer of these entries; a regular file's content is data[name].
func entries(data map[string][]byte, headers ...tar.Header) images.Layer {
	return func(tw *tar.Writer) error {
		for _, h := range headers {
			content := data[h.Name]
			h.Size = int64(len(content))
			if h.Typeflag == 0 {
				h.Typeflag = tar.TypeReg
			}
			if h.ModTime.IsZero() {
				h.ModTime = time.Unix(1600000000, 123456789)
			}
			h.Format = tar.FormatPAX
			if err := tw.WriteHeader(&h); err != nil {
				return err
			}
			if _, err := tw.Write(content); err != nil {
				return err
			}
		}
		return nil
	}
}

// random returns n bytes that do not compress, the same for the same seed.
func random(seed byte, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(p)
	return p
}

// shapes are layers with every kind of entry that an image may have, and
// changes of each by later layers.
func shapes() []images.Layer {
	dir := func(name string, mode int64, uid, gid int) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: uid, Gid: gid, ModTime: time.Unix(1234567890, 5)}
	}
	file := func(name string, mode int64, uid int) tar.Header {
		return tar.Header{Name: name, Mode: mode, Uid: uid, Gid: uid}
	}
	big := random(1, 3<<20+17)
	return []images.Layer{
		entries(map[string][]byte{"d/big": big, "d/file": []byte("one"), "d/sub/deep": []byte("deep"), "gone": []byte("gone"), "priv/key": []byte("key"), "replaced": []byte("file")},
			dir("d", 0o755, 0, 0), file("d/big", 0o644, 0), file("d/file", 0o600, 1000), dir("d/sub", 0o711, 7, 8), file("d/sub/deep", 0o644, 7),
			file("gone", 0o644, 0), dir("priv", 0o700, 5, 6), file("priv/key", 0o400, 5), file("replaced", 0o644, 0),
			tar.Header{Typeflag: tar.TypeLink, Name: "d/hard", Linkname: "d/file", Mode: 0o600, Uid: 1000, Gid: 1000},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "d/soft", Linkname: "../priv/key", Mode: 0o777, ModTime: time.Unix(1500000000, 5)},
			tar.Header{Typeflag: tar.TypeLink, Name: "d/hardsoft", Linkname: "d/soft", Mode: 0o777, ModTime: time.Unix(1500000000, 5)},
			tar.Header{Typeflag: tar.TypeChar, Name: "d/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
			tar.Header{Typeflag: tar.TypeBlock, Name: "d/block", Mode: 0o660, Devmajor: 8, Devminor: 300},
			tar.Header{Typeflag: tar.TypeFifo, Name: "d/fifo", Mode: 0o600}),
		entries(map[string][]byte{"d/suid": []byte("#!/bin/sh\n"), "d/xattr": []byte("x"), "priv/more": []byte("more")},
			file("d/suid", 0o4755, 0),
			tar.Header{Name: "d/xattr", Mode: 0o644, PAXRecords: map[string]string{"SCHILY.xattr.user.k": "v\xff w", "SCHILY.xattr.user.empty": ""}},
			tar.Header{Typeflag: tar.TypeDir, Name: "sticky/", Mode: 0o1777}, file("priv/more", 0o640, 9)), // priv has no entry here
		entries(map[string][]byte{"d/sub/new": []byte("new"), "replaced/child": []byte("child")},
			file(".wh.gone", 0o644, 0), file("d/.wh.hard", 0o644, 0), dir("d/sub", 0o750, 1, 2), file("d/sub/.wh..wh..opq", 0o644, 0), file("d/sub/new", 0o644, 0),
			dir("replaced", 0o755, 0, 0), file("replaced/child", 0o644, 0)),
		entries(map[string][]byte{"d/file": []byte("two"), "x/y/z": []byte("implied")},
			file("d/file", 0o644, 3000000000), file("x/y/z", 0o644, 0), file("d/.wh.big", 0o644, 0)),
	}
}

// many returns n small layers, each of which adds a file, changes one and
// deletes one of an earlier layer.
func many(n int) []images.Layer {
	var layers []images.Layer
	for i := range n {
		name := func(k int) string { return fmt.Sprintf("many/%03d", k) }
		headers := []tar.Header{{Name: name(i), Mode: 0o644}, {Name: "many/last", Mode: 0o600 | int64(i%8)}}
		if i > 0 && i%3 == 0 {
			headers = append(headers, tar.Header{Name: fmt.Sprintf("many/.wh.%03d", i-1), Mode: 0o644})
		}
		layers = append(layers, entries(map[string][]byte{name(i): random(byte(i), 1000*i), "many/last": fmt.Appendf(nil, "%d", i)}, headers...))
	}
	return layers
}

// mix makes an image of the layers of img in which those with lazy[i] are
// converted ones and the others are as they were; it has no index layer.
func (v *vm) mix(name string, img image, lazy []bool) image {
	v.Helper()
	converted := filepath.Join(v.TempDir(), "converted")
	must(v.fill.Run(v.Context(), v.program("faasnet"), "convert", "--plain-http", "--quiet", v.filler.Addr+"/"+name+":plain", "oci:"+converted))(v)
	plain, conv := readManifest(v, img.layout), readManifest(v, converted)
	mixed := filepath.Join(v.TempDir(), "mixed")
	v.check(os.CopyFS(mixed, os.DirFS(img.layout)))
	for i, yes := range lazy {
		if yes {
			plain.Layers[i] = conv.Layers[i]
			v.check(os.Link(blobPath(converted, conv.Layers[i].Digest), blobPath(mixed, conv.Layers[i].Digest)))
		}
	}
	manifest := must(json.Marshal(plain))(v)
	index := readJSON[ocispec.Index](v, filepath.Join(mixed, "index.json"))
	index.Manifests[0].Digest, index.Manifests[0].Size = digest.FromBytes(manifest), int64(len(manifest))
	v.check(os.WriteFile(blobPath(mixed, index.Manifests[0].Digest), manifest, 0o644))
	v.check(os.WriteFile(filepath.Join(mixed, "index.json"), must(json.Marshal(index))(v), 0o644))
	tag := fmt.Sprintf("%s:mix-%s", name, index.Manifests[0].Digest.Encoded()[:12])
	must(v.filler.Push(v.Context(), mixed, tag))(v)
	img.lazy = v.origin.Addr + "/" + tag
	return img
}
