// Package convert turns the layers of an image into layers of format version 1
// and adds the index layer: layer to layer and image to image, within one
// content store. Where images come from and go to is the business of package
// endpoint.
//
// The same input and options give the same bytes on any machine: nothing here
// depends on the number of cores, the clock, the environment or the order in
// which goroutines run.
package convert

import (
	"context"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/block"
)

// Options says how to convert. The zero value is ready to use.
type Options struct {
	// BlockSize is the size of a block in bytes of the tar stream, a power
	// of two between block.MinSize and block.MaxSize. The default is
	// block.DefaultSize.
	BlockSize int
	// Level is how hard to compress. The default is block.LevelDefault.
	Level block.Level
	// Platform selects the manifests of an index. The default is all.
	Platform platforms.MatchComparer
	// Workers is the number of blocks compressed at the same time, at most 16
	// and fewer with block.LevelBest, whose encoders are large. The default is
	// GOMAXPROCS.
	Workers int
	// Existing finds a layer that was converted before, by the diff ID of its
	// tar stream. It is asked for layers that the content store does not have;
	// what it returns is used only if it was made with the same options, and
	// its metadata section must be readable through the content store. The
	// default finds nothing.
	Existing func(diffID digest.Digest) (ocispec.Descriptor, bool)
	// Record lists the files that a start of the image opens: each image gets a
	// start layer of those that it has, in place of one that it may have. nil:
	// images are converted as they are.
	Record start.Record
	// Progress hears how it goes. The default is nobody.
	Progress Progress
}

// Progress hears how a conversion goes. Its methods are called by many
// goroutines at the same time.
type Progress interface {
	// Plan tells of a layer, once, before any of its image is read.
	Plan(source ocispec.Descriptor)
	// Begin tells that a layer is being read.
	Begin(source ocispec.Descriptor)
	// Read tells that n more bytes of some source layer were read.
	Read(n int)
	// End tells what became of a layer. There was no Begin for a layer that
	// was reused.
	End(LayerReport)
	// Start tells of a start layer that was made.
	Start(StartReport)
	// Image tells of a manifest that is done.
	Image(ImageReport)
	// Warn tells of something that the result lacks.
	Warn(text string)
}

// LayerReport is what became of one layer.
type LayerReport struct {
	Source   digest.Digest `json:"source"`
	Target   digest.Digest `json:"target"`
	DiffID   digest.Digest `json:"diff_id"`
	BytesIn  int64         `json:"bytes_in"`  // source blob
	BytesOut int64         `json:"bytes_out"` // converted blob
	BytesTar int64         `json:"bytes_tar"` // tar stream; 0 for a reused layer
	Blocks   int           `json:"blocks"`    // 0 for a reused layer
	Reused   bool          `json:"reused"`
	Seconds  float64       `json:"seconds"`
}

// StartReport says what a start layer has. Files, Unknown, Little, Empty, Again
// and Other add up to the paths of the record.
type StartReport struct {
	Manifest digest.Digest `json:"manifest"` // of the source
	Target   digest.Digest `json:"target"`
	DiffID   digest.Digest `json:"diff_id"`
	Files    int           `json:"files"`     // hard links of one count once
	Unknown  int           `json:"unknown"`   // paths of the record that are no files of the image
	Little   int           `json:"little"`    // large files left out: less than a third of them is used
	Empty    int           `json:"empty"`     // files left out: without content
	Again    int           `json:"again"`     // further names of files that are counted already
	Other    int           `json:"other"`     // files left out: a copy would not be the same
	BytesTar int64         `json:"bytes_tar"` // tar stream
	BytesOut int64         `json:"bytes_out"` // blob
	Blocks   int           `json:"blocks"`
	Seconds  float64       `json:"seconds"`
}

// ImageReport says which layers a manifest had and has.
type ImageReport struct {
	In, Out []ocispec.Descriptor
}

// Converter converts the layers and images of one content store. It is safe
// for concurrent use; all that it does shares one bound on memory and CPU. A
// layer that occurs several times is converted once, and if that fails it
// fails everywhere: a Converter is for one conversion.
type Converter struct {
	o      Options
	work   *squeezer
	harder func() (*squeezer, error) // for start layers

	mu      sync.Mutex // guards the maps; held for accesses only
	once    map[digest.Digest]func() (made, error)
	planned map[digest.Digest]bool

	merging sync.Mutex // one image at a time has all its trees in memory
}

// New returns a Converter. The error matches errdefs.ErrInvalidArgument.
func New(o Options) (*Converter, error) {
	if o.BlockSize == 0 {
		o.BlockSize = block.DefaultSize
	}
	if o.Platform == nil {
		o.Platform = platforms.All
	}
	if o.Existing == nil {
		o.Existing = func(digest.Digest) (ocispec.Descriptor, bool) { return ocispec.Descriptor{}, false }
	}
	if o.Progress == nil {
		o.Progress = silent{}
	}
	work, err := newSqueezer(o.BlockSize, o.Level, o.Workers)
	if err != nil {
		return nil, err
	}
	return &Converter{o: o, work: work, harder: sync.OnceValues(work.harder), once: make(map[digest.Digest]func() (made, error)), planned: make(map[digest.Digest]bool)}, nil
}

// Layer converts one layer with a Converter of its own.
func Layer(ctx context.Context, cs content.Store, desc ocispec.Descriptor, o Options) (*ocispec.Descriptor, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return c.Layer(ctx, cs, desc)
}

// Image converts one image with a Converter of its own.
func Image(ctx context.Context, cs content.Store, desc ocispec.Descriptor, o Options) (*ocispec.Descriptor, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return c.Image(ctx, cs, desc)
}

type silent struct{}

func (silent) Plan(ocispec.Descriptor)  {}
func (silent) Begin(ocispec.Descriptor) {}
func (silent) Read(int)                 {}
func (silent) End(LayerReport)          {}
func (silent) Start(StartReport)        {}
func (silent) Image(ImageReport)        {}
func (silent) Warn(string)              {}
