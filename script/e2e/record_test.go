package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/script/lab"
)

// A start is recorded, of the image as it was and of the lazily mounted one, and
// the image gets a start layer: its files are the same, with our snapshotter
// and with overlayfs.
func TestStartLayer(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{NoBackground: true})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	v.check(v.Pull(t.Context(), "overlayfs", img.plain))
	const begin = "cd /d; cat suid xattr file sub/new soft /replaced/child /x/y/z /proc/version >/tmp.new; cat /tmp.new >/dev/null; echo READY"
	record := func(snapshotter, ref string) (file string, paths []string) {
		file = filepath.Join(t.TempDir(), "record")
		must(v.host.Run(t.Context(), v.program("faasnet"), "record", "--address", v.Address(), "--snapshotter", snapshotter,
			"--until", lab.Ready, "--out", file, ref, "/bin/sh", "-c", begin))(t)
		for line := range strings.Lines(string(must(os.ReadFile(file))(t))) {
			_, path, _ := strings.Cut(line, `"path":"`)
			path, _, _ = strings.Cut(path, `"`)
			paths = append(paths, path)
		}
		return file, paths
	}
	_, lazily := record("faasnet", img.lazy)
	file, paths := record("overlayfs", img.plain)
	if a, b := strings.Join(lazily, " "), strings.Join(paths, " "); a != b || !strings.Contains(b, "d/suid d/xattr d/file d/sub/new priv/key replaced/child x/y/z") {
		t.Errorf("from a lazy image %s\nfrom an unpacked one %s", a, b)
	}
	dst := v.filler.Addr + "/shapes:start"
	must(v.fill.Run(t.Context(), v.program("faasnet"), "convert", "--plain-http", "--quiet", "--record-in", file, v.filler.Addr+"/shapes:plain", dst))(t)
	must(v.fill.Run(t.Context(), v.program("faasnet"), "verify", "--plain-http", "--quiet", dst))(t)
	img.lazy = v.origin.Addr + "/shapes:start"
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
	v.same(v.Containerd, img.lazy, img.plain)
	v.sameRunning(img)

	v.check(v.Pull(t.Context(), "overlayfs", img.lazy))
	want, done := v.mounted(v.Containerd, "overlayfs", img.plain)
	defer done()
	got, done := v.mounted(v.Containerd, "overlayfs", img.lazy)
	defer done()
	compare(t, want, got)
}
