package e2e

import (
	"archive/tar"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/script/lab"
)

// same fails the test unless ref, mounted by our snapshotter, has all files
// that overlayfs gives after a full pull and unpack of plain.
func (v *vm) same(c *lab.Containerd, ref, plain string) {
	v.Helper()
	v.check(c.Pull(v.Context(), "overlayfs", plain))
	want, done := v.mounted(c, "overlayfs", plain)
	defer done()
	got, done := v.mounted(c, "faasnet", ref)
	defer done()
	compare(v, want, got)
}

func compare(t testing.TB, want, got string) {
	t.Helper()
	indextest.Compare(t, want, got, indextest.Options{SkipMtime: implicit})
}

// implicit reports whether some layer of a test image has entries below dir but
// none for it, and containerd gives it the time of the unpacking; or the
// runtime makes it in containers.
func implicit(dir string) bool {
	return slices.Contains([]string{".", "app", "d", "priv", "x", "x/y", "many", "run"}, dir)
}

// The product's main job: an image is pulled without its layers, its function
// is READY, and the root file system is the one of a full unpack.
func TestPullAndRun(t *testing.T) {
	for _, release := range []lab.Release{lab.Current, lab.Debian} {
		for _, name := range []string{"a", "b"} {
			t.Run(fmt.Sprintf("%s/%s", release, name), func(t *testing.T) {
				v := newVM(t, release, "", lab.DaemonConfig{NoBackground: true})
				img := v.built(name)
				before := must(v.link.Sent())(t)
				begin := time.Now()
				v.pullLazily(release, img.lazy)
				pulled := time.Since(begin)
				v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
				t.Logf("pulled after %v, ran for %v, %.1f MB fetched", pulled, time.Since(begin)-pulled, float64(must(v.link.Sent())(t)-before)/1e6)
				if n := v.blobs(img.lazy); n > 0 {
					t.Errorf("%d layers were downloaded", n)
				}
				v.sameRunning(img)
			})
		}
	}
}

// sameRunning compares root file systems of running containers, seen from the
// host: the image's files below the writable layer, before anyone wrote.
func (v *vm) sameRunning(img image) {
	v.Helper()
	root := func(snapshotter, ref string) (dir string, end func()) {
		c := must(v.Attach(v.Context(), snapshotter, ref, "/bin/sh", "-c", "echo begin; read end"))(v)
		if line := must(c.Line())(v); line != "begin" {
			v.Fatalf("the container prints %q", line)
		}
		return v.Root(c), func() {
			v.check(c.Say("end"))
			v.check(c.Wait())
		}
	}
	v.check(v.Pull(v.Context(), "overlayfs", img.plain))
	want, end := root("overlayfs", img.plain)
	defer end()
	got, end := root("faasnet", img.lazy)
	defer end()
	compare(v, want, got)
}

// Conversion takes an image away from nobody: plain containerd pulls, unpacks
// and runs the converted one, and its files are the same.
func TestConvertedImageWithoutUs(t *testing.T) {
	for _, name := range []string{"b", "shapes"} {
		t.Run(name, func(t *testing.T) {
			v := newVM(t, lab.Current, "", lab.DaemonConfig{})
			var img image
			if name == "shapes" {
				img = v.made(name, shapes()...)
			} else {
				img = v.built(name)
			}
			v.check(v.Pull(t.Context(), "overlayfs", img.lazy))
			v.check(v.RunReady(t.Context(), "overlayfs", img.lazy))
			v.check(v.Pull(t.Context(), "overlayfs", img.plain))
			want, done := v.mounted(v.Containerd, "overlayfs", img.plain)
			defer done()
			got, done := v.mounted(v.Containerd, "overlayfs", img.lazy)
			defer done()
			compare(t, want, got)
		})
	}
}

func TestEveryKindOfFile(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
	v.same(v.Containerd, img.lazy, img.plain)
	v.sameRunning(img)
	out := must(v.Exec(t.Context(), "faasnet", img.lazy, "/bin/sh", "-c", "echo more >>/priv/key; rm /d/file; cat /priv/key; ls -A /d/sub"))(t)
	if out != "keymore\nnew\n" {
		t.Errorf("a container that writes sees %q", out)
	}
}

// The pull of containerd 1.6 tells a snapshotter nothing. It cannot be lazy,
// works as usual, and log and metrics say why.
func TestKC02_PullWithoutReference(t *testing.T) {
	v := newVM(t, lab.Debian, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
	v.sameRunning(img)
	v.unpacked(img.lazy, "invalid_labels")
}

// unpacked checks that log and metrics give the reason why no layer is lazy.
func (v *vm) unpacked(ref, reason string) {
	v.Helper()
	if n, want := v.logged("layer is unpacked as usual", "reason="+reason), len(must(v.Layers(v.Context(), ref))(v)); n != want {
		v.Errorf("the log gives the reason %s %d times for %d layers", reason, n, want)
	}
	series := map[string]float64{}
	for name, value := range must(v.daemon.Metrics(v.Context()))(v) {
		if strings.Contains(name, reason) {
			series[name] = value
		}
	}
	if len(series) != 1 {
		v.Errorf("metrics with the reason %s: %v", reason, series)
	}
}

// An image of 127 layers, the index layer among them, in a repository whose name
// has 200 bytes: what is said of a layer fits into labels, what is mounted into a page.
func TestKC01_KC05_ManyLayersAndALongName(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("many"+strings.Repeat("-name", 39)+"s", many(125)...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	if n := len(must(v.Layers(t.Context(), img.lazy))(t)); n != 127 {
		t.Errorf("the image has %d layers", n)
	}
	v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
	if n := v.blobs(img.lazy); n > 0 {
		t.Errorf("%d layers were downloaded", n)
	}
	v.same(v.Containerd, img.lazy, img.plain)
}

func TestTwoNamespaces(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	other := v.Namespace("other")
	for _, c := range []*lab.Containerd{v.Containerd, other} {
		v.check(c.Pull(t.Context(), "faasnet", img.lazy))
		v.check(c.RunReady(t.Context(), "faasnet", img.lazy))
	}
	must(v.Ctr(t.Context(), "image", "rm", "--sync", img.lazy))(t)
	v.check(other.RunReady(t.Context(), "faasnet", img.lazy))
	v.same(other, img.lazy, img.plain)
}

// A base image that is pulled after an image made from it has all its layers
// already: containerd asks for none of them, not even for its index.
func TestBaseAfterDerived(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	layers := shapes()
	base := v.made("base", layers[:2]...)
	derived := v.made("derived", layers...)
	for _, img := range []image{derived, base} {
		v.check(v.Pull(t.Context(), "faasnet", img.lazy))
		v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
		v.same(v.Containerd, img.lazy, img.plain)
	}
}

// Converted and ordinary layers in any order make the tree that overlayfs makes
// of them, and those that can stay lazy do.
func TestKC08_MixedLayers(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	for _, lazy := range [][]bool{
		{true, false, true, false, true},
		{false, true, false, true, false},
		{true, true, false, false, true},
		{false, false, true, true, true},
		{true, true, true, true, false},
	} {
		t.Run(fmt.Sprint(lazy), func(t *testing.T) {
			name := strings.Trim(strings.ReplaceAll(fmt.Sprint(lazy), " ", "-"), "[]")
			v := &vm{world: v.world, TB: t, host: v.host, daemon: v.daemon, Containerd: v.Namespace(name)}
			mixed := v.mix("shapes", img, lazy)
			v.check(v.Pull(t.Context(), "faasnet", mixed.lazy))
			for prepared, want := range map[bool]int{true: count(lazy, true), false: count(lazy, false)} {
				if n := v.logged(fmt.Sprintf("remote-snapshot-prepared=%v", prepared), `key="`+name+"/"); n != want {
					t.Errorf("%d layers with remote-snapshot-prepared=%v, want %d", n, prepared, want)
				}
			}
			v.check(v.RunReady(t.Context(), "faasnet", mixed.lazy))
			v.same(v.Containerd, mixed.lazy, img.plain)
		})
	}
}

func count(values []bool, v bool) (n int) {
	for _, x := range values {
		if x == v {
			n++
		}
	}
	return n
}

// An image that is not ours is unpacked as usual, and log and metrics say why.
func TestKC02_OrdinaryImage(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.plain))
	v.check(v.RunReady(t.Context(), "faasnet", img.plain))
	v.same(v.Containerd, img.plain, img.plain)
	v.unpacked(img.plain, "not_converted")
}

// A container may be stopped with the daemon, and started again: what was
// pulled and read before is there without the registry.
func TestRestartWithoutRegistry(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	content := random(9, 4<<20)
	img := v.made("restart", entries(map[string][]byte{"data": content}, tar.Header{Name: "data", Mode: 0o644}))
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	sum := func() string {
		return must(v.Exec(t.Context(), "faasnet", img.lazy, "/bin/sh", "-c", "sha256sum </data"))(t)
	}
	before := sum()
	v.check(v.daemon.Stop(30 * time.Second))
	sent := must(v.link.Sent())(t)
	v.restart()
	if after := sum(); after != before {
		t.Errorf("read %s before and %s after the restart", before, after)
	}
	if n := must(v.link.Sent())(t) - sent; n > 64<<10 { // a little for who asks the registry for its health
		t.Errorf("%d bytes were fetched again", n)
	}
}
