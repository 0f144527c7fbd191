package images

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// epoch is the time of everything that has no time of its own, so that a
// second build gives the same bytes.
var epoch = time.Unix(1700000000, 0).UTC()

// Layer writes the entries of one layer.
type Layer func(tw *tar.Writer) error

// Size is what an image measures.
type Size struct {
	Layers     int
	Tar        int64 // bytes of all tar streams
	Compressed int64 // bytes of all layer blobs
}

func (s Size) String() string {
	return fmt.Sprintf("%d layers, %.1f MB, compressed %.1f MB", s.Layers, float64(s.Tar)/1e6, float64(s.Compressed)/1e6)
}

type layer struct {
	desc   ocispec.Descriptor
	diffID digest.Digest
	tar    int64
	note   string
}

// Writer writes one image into an OCI layout directory. Layers are packed
// concurrently; their order is the order of the calls of Add. Not safe for
// concurrent use.
type Writer struct {
	dir    string
	layers []*layer
	group  errgroup.Group
}

// NewWriter starts an image in the new directory dir.
func NewWriter(dir string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		return nil, err
	}
	w := &Writer{dir: dir}
	w.group.SetLimit(runtime.GOMAXPROCS(0))
	return w, nil
}

// Add packs the next layer. Its error is returned by Close.
func (w *Writer) Add(note string, fill Layer) {
	l := &layer{note: note}
	w.layers = append(w.layers, l)
	w.group.Go(func() error {
		if err := w.pack(l, fill); err != nil {
			return fmt.Errorf("layer %s: %w", l.note, err)
		}
		return nil
	})
}

// Close writes configuration, manifest and index; the image is called tag.
func (w *Writer) Close(tag string, cmd []string) error {
	if err := w.group.Wait(); err != nil {
		return err
	}
	config := ocispec.Image{Created: &epoch, Platform: ocispec.Platform{Architecture: runtime.GOARCH, OS: "linux"}}
	config.Config.Cmd = cmd
	config.Config.WorkingDir = "/"
	config.Config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"}
	config.RootFS.Type = "layers"
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range w.layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.diffID)
		config.History = append(config.History, ocispec.History{Created: &epoch, CreatedBy: l.note})
		manifest.Layers = append(manifest.Layers, l.desc)
	}
	var err error
	if manifest.Config, err = w.document(ocispec.MediaTypeImageConfig, config); err != nil {
		return err
	}
	desc, err := w.document(ocispec.MediaTypeImageManifest, manifest)
	if err != nil {
		return err
	}
	desc.Annotations = map[string]string{ocispec.AnnotationRefName: tag}
	desc.Platform = &config.Platform
	index := ocispec.Index{Versioned: manifest.Versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{desc}}
	if err := writeJSON(filepath.Join(w.dir, ocispec.ImageLayoutFile), ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(w.dir, ocispec.ImageIndexFile), index)
}

// Size measures the image, after Close.
func (w *Writer) Size() Size {
	s := Size{Layers: len(w.layers)}
	for _, l := range w.layers {
		s.Tar += l.tar
		s.Compressed += l.desc.Size
	}
	return s
}

// pack compresses at gzip's default level, as container build tools do.
func (w *Writer) pack(l *layer, fill Layer) error {
	f, err := os.CreateTemp(w.dir, "layer")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	blob, diff := &counter{Hash: sha256.New()}, &counter{Hash: sha256.New()}
	zw := gzip.NewWriter(io.MultiWriter(f, blob))
	tw := tar.NewWriter(io.MultiWriter(zw, diff))
	if err := fill(tw); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	l.diffID, l.tar = digest.NewDigest(digest.SHA256, diff), diff.n
	l.desc = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.NewDigest(digest.SHA256, blob), Size: blob.n}
	return os.Rename(f.Name(), w.blob(l.desc.Digest))
}

func (w *Writer) blob(d digest.Digest) string {
	return filepath.Join(w.dir, "blobs", "sha256", d.Encoded())
}

func (w *Writer) document(mediaType string, v any) (ocispec.Descriptor, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(p), Size: int64(len(p))}
	return desc, os.WriteFile(w.blob(desc.Digest), p, 0o644)
}

func writeJSON(path string, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, p, 0o644)
}

// counter counts what is hashed.
type counter struct {
	hash.Hash
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.Hash.Write(p)
}
