// Package fs serves layers to the kernel and mounts images made of them.
//
// A container's read goes through overlayfs to an EROFS mount, whose metadata is
// a local file and whose devices are the uncompressed tar streams of the layers:
//
//	overlayfs ── EROFS ─┬─ device of a complete layer:  its local file, no daemon in the path
//	                    └─ device of any other layer:   <dir>/layers/<n> on our FUSE mount
//
// Everything but missing file data stays in the kernel. There is one FUSE mount
// for all layers and one EROFS mount for each image.
package fs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/prometheus/client_golang/prometheus"
)

// Directories below the one of an FS.
const (
	layersDir = "layers" // the FUSE mount
	imagesDir = "images" // EROFS images that are mounted
	mountsDir = "m"      // EROFS mounts; short, since overlayfs gets the paths in one page of options
)

// maxTurns bounds the mounts being made at a time.
const maxTurns = 4

// Options of an FS. The zero value is good.
type Options struct {
	// ReadTimeout bounds each READ of the kernel; after it the reader gets EIO.
	// The default is 30 s.
	ReadTimeout time.Duration
	// MaxBackground is how many READs the kernel may have in flight. The default
	// is 4096, the most is 65535. One layer never gets more than half of them.
	MaxBackground int
	// DirectIO makes EROFS read its devices past their page cache: one copy
	// less in memory, and for many small files four times the READs. It holds for
	// mounts without local devices: those may need larger alignment than 512 bytes.
	DirectIO bool
	// Grace is how long an unmount may take, and how long Close waits for readers
	// to let go of the FUSE mount before it aborts them. The default is 3 s.
	Grace time.Duration
	// Registerer takes the metrics; nil means none.
	Registerer prometheus.Registerer
}

func (o *Options) validate() error {
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 30 * time.Second
	}
	if o.MaxBackground == 0 {
		o.MaxBackground = 4096
	}
	if o.Grace == 0 {
		o.Grace = 3 * time.Second
	}
	if o.ReadTimeout < 0 || o.Grace < 0 || o.MaxBackground < 2 || o.MaxBackground > 65535 {
		return fmt.Errorf("read timeout %v, grace %v, max background %d: %w", o.ReadTimeout, o.Grace, o.MaxBackground, errdefs.ErrInvalidArgument)
	}
	return nil
}

// FS is the FUSE mount of one daemon and the image mounts on top of it.
type FS struct {
	dir     string
	o       Options
	flat    *flat
	conn    *connection
	images  images
	metrics *metrics
	serial  atomic.Uint64
	epoch   string // makes names of mounts unique over restarts

	ctx     context.Context //nolint:containedctx // ends with Close; parent of all READs
	cancel  context.CancelFunc
	serve   sync.Once
	serving chan struct{} // closed by the first Run
	ended   chan struct{} // closed when the FUSE connection has ended
	busy    sync.WaitGroup
	turns   chan struct{} // a token for each mount being made

	mu     sync.Mutex // guards mounts and closed; taken before none other
	mounts map[*Mount]struct{}
	closed bool
}

// New makes the FUSE mount at dir/layers. Nothing of it can be read before Run.
// What an earlier daemon left in dir must be gone, see Recover.
func New(ctx context.Context, dir string, o Options) (*FS, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if strings.Contains(dir, ":") {
		return nil, fmt.Errorf("directory %q: overlayfs splits paths at ':': %w", dir, errdefs.ErrInvalidArgument)
	}
	for _, d := range []string{layersDir, imagesDir, mountsDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.EvalSymlinks(dir) // mountinfo knows real paths only
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	var epoch [4]byte
	rand.Read(epoch[:])
	f := &FS{
		dir: dir, o: o, metrics: m, epoch: hex.EncodeToString(epoch[:]),
		images:  images{dir: filepath.Join(dir, imagesDir), refs: map[string]int{}, checked: map[[sha256.Size]byte]struct{}{}},
		serving: make(chan struct{}), ended: make(chan struct{}),
		mounts: map[*Mount]struct{}{}, turns: make(chan struct{}, maxTurns),
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.flat = &flat{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		ctx:           f.ctx, state: dir, files: newTable(), limits: newAdmission(o.MaxBackground),
		timeout: o.ReadTimeout, log: newLogLimit(), metrics: m,
	}
	if f.conn, err = connect(ctx, filepath.Join(dir, layersDir), f.flat, o.MaxBackground); err != nil {
		f.cancel()
		return nil, err
	}
	return f, nil
}

// Run serves the FUSE mount. It returns nil when ctx ends or FS is closed, and
// ErrUnavailable when somebody else ended the mount. The end of ctx stops
// nothing: mounts that containers use are served until Close or the end of the
// process.
func (f *FS) Run(ctx context.Context) error {
	f.start()
	select {
	case <-ctx.Done():
		return nil
	case <-f.ended:
	}
	if f.ctx.Err() != nil {
		return nil //nolint:nilerr // it is closed
	}
	return fmt.Errorf("FUSE mount %s was ended from outside: %w", f.conn.dir, errdefs.ErrUnavailable)
}

func (f *FS) start() {
	f.serve.Do(func() {
		close(f.serving)
		go func() {
			defer close(f.ended)
			f.conn.server.Serve()
		}()
	})
}

// InUse tells whether any Mount is open.
func (f *FS) InUse() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mounts) > 0
}

// Close unmounts everything. Mounts that are busy are detached, and when the
// FUSE mount is still held after the grace time, its readers get errors. It
// may be called more than once and waits until all is done.
func (f *FS) Close() error {
	f.mu.Lock()
	f.closed = true
	var open []*Mount
	for m := range f.mounts {
		open = append(open, m)
	}
	f.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, m.Close())
	}
	f.cancel() // READs in flight end with an error
	errs = append(errs, f.disconnect())
	f.busy.Wait()
	return errors.Join(errs...)
}
