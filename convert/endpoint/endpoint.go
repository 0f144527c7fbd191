// Package endpoint knows the places where images are: registries, OCI layout
// directories, archives of docker save and of OCI, and containerd. Each is
// read through a content.Provider and written by copying from one, so that
// whoever works on images sees content stores only.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/block"
)

// Places opens images. What it needs for a kind of place may be missing if no
// name of that kind is used.
type Places struct {
	// Resolver speaks to registries.
	Resolver remotes.Resolver
	// Blobs reads ranges of the blobs in the repository of a reference.
	Blobs func(ref string) (block.Source, error)
	// Containerd connects to containerd. The caller closes the client.
	Containerd func() (*containerd.Client, error)
	// Work is a directory for what an archive has to be unpacked to. The
	// caller removes it.
	Work string
}

// Open opens an image to read it. The error matches errdefs.ErrNotFound when
// the place has no such image, errdefs.ErrInvalidArgument when the name fits
// several.
func (p *Places) Open(ctx context.Context, n Name) (*Image, error) {
	var (
		img *Image
		err error
	)
	switch n.Kind {
	case Layout:
		img, err = openLayout(ctx, n)
	case Archive:
		img, err = p.openArchive(ctx, n)
	case Containerd:
		img, err = p.openContainerd(ctx, n)
	default:
		img, err = p.openRegistry(ctx, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	img.Name = n.String()
	return img, nil
}

// Put copies the image target with all that it refers to from a provider to
// its place, blobs first, then manifests, children before parents, and gives it
// its name last. If that fails the name means what it meant before, and blobs
// that were already copied are removed where the place allows it.
func (p *Places) Put(ctx context.Context, n Name, target ocispec.Descriptor, from content.InfoReaderProvider) error {
	var err error
	switch n.Kind {
	case Layout:
		err = putLayout(ctx, n, target, from)
	case Archive:
		err = putArchive(ctx, n, target, from)
	case Containerd:
		err = p.putContainerd(ctx, n, target, from)
	default:
		err = p.putRegistry(ctx, n, target, from)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	return nil
}

// CheckTarget says early what would keep Put from writing to n, as far as that
// shows. The error matches errdefs.ErrInvalidArgument.
func CheckTarget(n Name) error {
	var err error
	switch n.Kind {
	case Registry:
		if isDigested(n.Ref) {
			err = errors.New("cannot write to a digest")
		}
	case Layout:
		err = checkLayout(n.Path)
	case Archive:
		if err = CheckReplace(n.Path); err == nil {
			err = checkArchive(n.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("%v: %w: %w", n, err, errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkArchive refuses to put an archive in the place of a file that is none, but
// happens to have the name of an image.
func checkArchive(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	const at = 257 // of the magic in a tar header
	magic := make([]byte, len("ustar"))
	if _, err := f.ReadAt(magic, at); err != nil || string(magic) != "ustar" {
		return errors.New("is in the way and no tar archive")
	}
	return nil
}

// checkLayout refuses a directory with anything but a layout, and a layout whose
// list of images is no file.
func checkLayout(dir string) error {
	if entries, _ := os.ReadDir(dir); len(entries) == 0 {
		return nil
	}
	if !isLayout(dir) {
		return errNoLayout
	}
	return CheckReplace(filepath.Join(dir, ocispec.ImageIndexFile))
}

var errNoLayout = errors.New("directory is neither empty nor an OCI layout")
