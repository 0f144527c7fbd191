package snapshotter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// world is a snapshotter under containerd's metadata, and what a pull needs.
type world struct {
	t     testing.TB
	root  string
	opts  []Opt
	m     *snapshottertest.Mounter
	s     snapshots.Snapshotter // ours
	db    *metadata.DB
	sn    snapshots.Snapshotter // what clients of containerd see
	stops []func() error
}

// patient bounds nothing but hangs: the machine may be busy.
func patient(c *config) {
	c.claimWait, c.prepareWait, c.unpackWait, c.mountsWait, c.releaseWait = time.Minute, time.Minute, time.Minute, time.Minute, time.Minute
}

func newWorld(t testing.TB, opts ...Opt) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{t: t, root: root, opts: append([]Opt{patient}, opts...), m: &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt"), Layers: map[string]string{}}}
	w.start()
	t.Cleanup(func() {
		w.stop()
		if err := w.m.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	store, err := storage.NewMetaStore(filepath.Join(w.root, "metadata.db"), func(o *bolt.Options) error { o.NoSync = true; return nil })
	w.must(err)
	s, err := newSnapshotter(w.root, store, w.m, w.opts...)
	w.must(err)
	db, stop, err := database(context.Background(), w.root, s)
	w.must(err)
	w.s, w.db, w.sn, w.stops = s, db, db.Snapshotter(suiteName), []func() error{stop, s.Close}
}

func (w *world) stop() {
	w.t.Helper()
	for _, f := range w.stops {
		w.must(f())
	}
	w.stops = nil
}

// restart is a new daemon after the old one was killed: its mounts are gone.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.must(w.m.Close())
	w.m = &snapshottertest.Mounter{Dir: w.m.Dir + "+", Layers: w.m.Layers}
	w.start()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// gc runs containerd's garbage collection.
func (w *world) gc() {
	w.t.Helper()
	_, err := w.db.GarbageCollect(context.Background())
	w.must(err)
}

// settle waits for what the snapshotter does behind its callers' backs.
func (w *world) settle() {
	w.t.Helper()
	c := &w.s.(*snapshotter).calls
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		n := c.n
		c.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d calls of the Mounter do not return", n)
		}
	}
}

// names lists the backend's snapshots as kind and name.
func (w *world) names() (all []string) {
	w.t.Helper()
	w.must(w.s.Walk(context.Background(), func(_ context.Context, info snapshots.Info) error {
		all = append(all, info.Kind.String()+" "+info.Name)
		return nil
	}))
	return all
}

// image is a list of layers, bottom first.
type image []imageLayer

type imageLayer struct {
	tar  []byte
	lazy bool   // has labels of a converted layer
	dir  string // unpacked by containerd's overlay snapshotter in this place of the chain
}

func (l imageLayer) diffID() digest.Digest { return digest.FromBytes(l.tar) }

func (img image) chainIDs() []string {
	var ids []digest.Digest
	for _, l := range img {
		ids = append(ids, l.diffID())
	}
	var s []string
	for _, id := range identity.ChainIDs(ids) {
		s = append(s, id.String())
	}
	return s
}

func (img image) top() string { return img.chainIDs()[len(img)-1] }

// lazily returns img with the layers lazy for which f is true, and lets the Mounter know all of them.
func (w *world) lazily(img image, f func(i int) bool) image {
	img = slices.Clone(img)
	for i := range img {
		img[i].lazy = f(i)
		w.m.Layers[img[i].diffID().String()] = img[i].dir
	}
	return img
}

func all(int) bool  { return true }
func none(int) bool { return false }

func (l imageLayer) labels() map[string]string {
	if !l.lazy {
		return map[string]string{}
	}
	return map[string]string{snapshottertest.LabelLayer: l.diffID().String()}
}

// build unpacks layers with containerd's overlay snapshotter: the directories of the image, and the reference for all else.
func build(t testing.TB, tars ...[]byte) image {
	t.Helper()
	root := t.TempDir()
	sn, err := overlay.NewSnapshotter(root)
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	var img image
	for _, p := range tars {
		img = append(img, imageLayer{tar: p})
	}
	if err := pull(in("ref"), sn, img); err != nil {
		t.Fatal(err)
	}
	mounts, err := sn.View(in("ref"), "view", img.top())
	if err != nil {
		t.Fatal(err)
	}
	dirs := lowerDirs(mounts)
	slices.Reverse(dirs)
	for i := range img {
		img[i].dir = dirs[i]
	}
	return img
}

func lowerDirs(mounts []mount.Mount) []string {
	for _, o := range mounts[0].Options {
		if dirs, ok := strings.CutPrefix(o, "lowerdir="); ok {
			return strings.Split(dirs, ":")
		}
	}
	return []string{mounts[0].Source}
}

func (w *world) pull(ns string, img image) error {
	return pull(in(ns), w.sn, img)
}

// pull does with sn what core/unpack of containerd 2.4.2 does in serial mode.
func pull(ctx context.Context, sn snapshots.Snapshotter, img image) error {
	chain := img.chainIDs()
	for i, l := range img {
		labels := l.labels()
		labels[snapshots.LabelSnapshotRef] = chain[i]
		labels[snapshots.LabelSnapshotDiffID] = l.diffID().String()
		labels["containerd.io/gc.root"] = "1"
		parent := ""
		if i > 0 {
			parent = chain[i-1]
			labels[labelParentChain] = parent
		}
		key := fmt.Sprintf(snapshots.UnpackKeyFormat, fmt.Sprint(i), chain[i])
		opt := snapshots.WithLabels(maps.Clone(labels))
		mounts, err := sn.Prepare(ctx, key, parent, opt)
		if errdefs.IsAlreadyExists(err) {
			if _, err := sn.Stat(ctx, chain[i]); err != nil {
				return fmt.Errorf("layer %d is said to exist: %w", i, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("prepare layer %d: %w", i, err)
		}
		if err := applyTo(ctx, l.tar, mounts); err != nil {
			return errors.Join(fmt.Errorf("unpack layer %d: %w", i, err), sn.Remove(ctx, key))
		}
		if err := sn.Commit(ctx, chain[i], key, opt); err != nil {
			return fmt.Errorf("commit layer %d: %w", i, err)
		}
	}
	return nil
}

func applyTo(ctx context.Context, p []byte, mounts []mount.Mount) error {
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(p), Size: int64(len(p))}
	_, err := apply.NewFileSystemApplier(blob{bytes.NewReader(p)}).Apply(ctx, desc, mounts)
	return err
}

// blob provides its bytes whatever is asked for.
type blob struct{ *bytes.Reader }

func (b blob) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) { return b, nil }
func (b blob) Close() error                                                           { return nil }

// in is a context of a namespace.
func in(ns string) context.Context { return namespaces.WithNamespace(context.Background(), ns) }

// mountAt mounts what a snapshotter returned until the test ends.
func mountAt(t testing.TB, mounts []mount.Mount) string {
	t.Helper()
	dir := t.TempDir()
	if err := mount.All(mounts, dir); err != nil {
		t.Fatalf("mount %v: %v", mounts, err)
	}
	t.Cleanup(func() {
		if err := mount.UnmountAll(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// reference mounts img as containerd's overlay snapshotter has it.
func reference(t testing.TB, img image) string {
	t.Helper()
	var dirs []string
	for _, l := range slices.Backward(img) {
		dirs = append(dirs, l.dir)
	}
	upper, work := t.TempDir(), t.TempDir()
	o := []string{"lowerdir=" + strings.Join(dirs, ":"), "upperdir=" + upper, "workdir=" + work, "index=off"}
	st, err := stat(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Chmod(upper, 0o755), unix.Chown(upper, int(st.Uid), int(st.Gid))); err != nil {
		t.Fatal(err)
	}
	return mountAt(t, []mount.Mount{{Type: "overlay", Source: "overlay", Options: o}})
}
