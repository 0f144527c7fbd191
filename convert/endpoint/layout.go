package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layoutDir is an OCI layout directory.
type layoutDir string

func openLayout(_ context.Context, n Name) (*Image, error) {
	dir := layoutDir(n.Path)
	idx, err := dir.index()
	if err != nil {
		return nil, err
	}
	m, err := pick(idx, n.Ref)
	if err != nil {
		return nil, err
	}
	return &Image{Target: unnamed(m), Provider: dir, Blobs: ranges{dir}}, nil
}

// index reads index.json. The error matches errdefs.ErrNotFound where there is
// no layout.
func (d layoutDir) index() (ocispec.Index, error) {
	var (
		idx    ocispec.Index
		layout ocispec.ImageLayout
	)
	if err := d.json(ocispec.ImageLayoutFile, &layout); err != nil {
		return idx, err
	}
	if layout.Version != ocispec.ImageLayoutVersion {
		return idx, fmt.Errorf("OCI layout of version %q, want %q: %w", layout.Version, ocispec.ImageLayoutVersion, errdefs.ErrInvalidArgument)
	}
	return idx, d.json(ocispec.ImageIndexFile, &idx)
}

func (d layoutDir) json(name string, v any) error {
	b, err := os.ReadFile(filepath.Join(string(d), name))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("not an OCI layout: %s is missing: %w", name, errdefs.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w: %w", name, err, errdefs.ErrInvalidArgument)
	}
	return nil
}

func (d layoutDir) blob(dgst digest.Digest) (string, error) {
	if err := dgst.Validate(); err != nil {
		return "", fmt.Errorf("digest %q: %w: %w", dgst, err, errdefs.ErrInvalidArgument)
	}
	return filepath.Join(string(d), ocispec.ImageBlobsDir, dgst.Algorithm().String(), dgst.Encoded()), nil
}

// ReaderAt opens a blob.
func (d layoutDir) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	path, err := d.blob(desc.Digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", desc.Digest, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return fileReaderAt{f, info.Size()}, nil
}

// Info says how large a blob is.
func (d layoutDir) Info(_ context.Context, dgst digest.Digest) (content.Info, error) {
	path, err := d.blob(dgst)
	if err != nil {
		return content.Info{}, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return content.Info{}, fmt.Errorf("blob %s: %w", dgst, errdefs.ErrNotFound)
	}
	if err != nil {
		return content.Info{}, err
	}
	return content.Info{Digest: dgst, Size: info.Size()}, nil
}

// fileReaderAt is a whole file as a blob.
type fileReaderAt struct {
	*os.File
	size int64
}

func (f fileReaderAt) Size() int64 { return f.size }

// putLayout copies an image into a layout directory, which is made if it is not
// there, and gives it the name n.Ref in index.json; what had the name before
// loses it. If that fails all that was made is removed. Who writes into the same
// directory meanwhile waits: names would be lost, and blobs that the other one
// counts on removed.
func putLayout(ctx context.Context, n Name, target ocispec.Descriptor, from content.InfoReaderProvider) (err error) {
	dir := layoutDir(n.Path)
	var undo undoList
	unlock := func() {}
	defer func() {
		if err != nil {
			undo.run()
		}
		unlock()
	}()
	if unlock, err = dir.lock(ctx, &undo); err != nil {
		unlock = func() {}
		return err
	}
	idx, err := dir.index()
	if errdefs.IsNotFound(err) {
		idx = ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
		err = dir.create(&undo)
	}
	if err != nil {
		return err
	}
	if err := copyTree(ctx, from, target, func(desc ocispec.Descriptor, r io.Reader) error {
		path, err := dir.blob(desc.Digest)
		if err != nil {
			return err
		}
		if exists(path) {
			return nil
		}
		if err := undo.mkdir(filepath.Dir(path)); err != nil {
			return err
		}
		return undo.write(path, r)
	}); err != nil {
		return err
	}
	m := unnamed(target)
	if n.Ref != "" {
		m.Annotations = withName(m.Annotations, n.Ref)
	}
	idx.Manifests = slices.DeleteFunc(idx.Manifests, func(old ocispec.Descriptor) bool {
		return old.Annotations[ocispec.AnnotationRefName] == n.Ref
	})
	idx.Manifests = append(idx.Manifests, m)
	b, err := json.Marshal(idx)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return Replace(filepath.Join(string(dir), ocispec.ImageIndexFile), func(w io.Writer) error { _, err := w.Write(b); return err })
}

// create makes an empty layout of a directory that is not there or empty.
func (d layoutDir) create(undo *undoList) error {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %w", errNoLayout, errdefs.ErrInvalidArgument)
	}
	if err := undo.mkdir(string(d)); err != nil {
		return err
	}
	b, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	return undo.writeBytes(filepath.Join(string(d), ocispec.ImageLayoutFile), b)
}
