package e2e

import (
	"archive/tar"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// The cases of docs/cases.md that are about containerd and one daemon.

// The daemon is stopped by each signal that may stop it. A lazy image, an
// ordinary one and all snapshots are there afterwards.
func TestRR03_SignalsLoseNothing(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	lazy, ordinary := v.killed("kill", 1), v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", lazy.lazy))
	v.check(v.Pull(t.Context(), "faasnet", ordinary.plain))
	directories := func() []string {
		return must(filepath.Glob(filepath.Join(v.daemon.Root(), "snapshotter", "snapshots", "*")))(t)
	}
	snapshots, dirs := v.snapshots(), directories()
	if len(snapshots) == 0 || len(dirs) == 0 {
		t.Fatalf("%d snapshots in %d directories", len(snapshots), len(dirs))
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT} {
		v.check(v.daemon.End(sig, 30*time.Second))
		now := directories() // containers have come and gone meanwhile
		if lost := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return slices.Contains(now, d) }); len(lost) > 0 {
			t.Errorf("%v: directories %v are lost", sig, lost)
		}
		v.restart()
		for s := range snapshots {
			if !v.snapshots()[s] {
				t.Errorf("%v: snapshot %s is lost", sig, s)
			}
		}
		v.readAll(lazy, false)
		v.check(v.RunReady(t.Context(), "faasnet", ordinary.plain))
	}
}

// A tag is pushed again with other content while all that it had is in the
// cache: another image has it.
func TestGD07_TagMoves(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	layer := func(text string) images.Layer {
		return entries(map[string][]byte{"say": []byte(text)}, tar.Header{Name: "say", Mode: 0o644})
	}
	old, fresh := v.made("moves-old", layer("old")), v.made("moves-new", layer("new"))
	tag := func(img image) (ref string) {
		must(v.fill.Run(t.Context(), v.program("faasnet"), "convert", "--plain-http", "--quiet",
			must(v.filler.Push(t.Context(), img.layout, "moves:plain"))(t), v.filler.Addr+"/moves:1"))(t)
		return v.origin.Addr + "/moves:1"
	}
	v.check(v.Pull(t.Context(), "faasnet", old.lazy))
	for text, img := range map[string]image{"old": old, "new": fresh} {
		ref := tag(img)
		v.check(v.Pull(t.Context(), "faasnet", ref))
		if got := must(v.Exec(t.Context(), "faasnet", ref, "/bin/cat", "/say"))(t); got != text+"\n" {
			t.Errorf("the tag says %q, want %q", got, text)
		}
		must(v.Ctr(t.Context(), "image", "rm", "--sync", ref))(t)
	}
}

// Sixteen pulls of one image at once, with images that share its base, and
// starts of all of them: all work, and what they share is there once.
func TestCD01_ConcurrentPulls(t *testing.T) {
	rounds := 1
	if soak {
		rounds = 20
	}
	v := newVM(t, lab.Current, "", lab.DaemonConfig{NoBackground: true})
	base := many(8)
	all := []image{v.made("pulls", base...)}
	for i := range 4 {
		own := entries(map[string][]byte{"own": fmt.Appendf(nil, "%d", i)}, tar.Header{Name: "own", Mode: 0o644})
		all = append(all, v.made(fmt.Sprintf("pulls-%d", i), append(slices.Clone(base[:4+i]), own)...))
	}
	for range rounds {
		parallel := func(n int, do func(i int) error) {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					if err := do(i); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		asked := func() (n float64) {
			for series, value := range must(v.daemon.Metrics(t.Context()))(t) {
				if strings.HasPrefix(series, "faasnet_registry_blocks_total") {
					n += value
				}
			}
			return n
		}
		before := asked()
		parallel(20, func(i int) error { return v.Pull(t.Context(), "faasnet", all[max(0, i-15)].lazy) })
		parallel(2*len(all), func(i int) error {
			_, err := v.Mount(t.Context(), "faasnet", all[i%len(all)].lazy)
			return err
		})
		if n := asked() - before; n < float64(len(all)) || n > float64(2*len(all)) { // what an image is made of, and no data
			t.Errorf("registries were asked for %v blocks when %d images were pulled and mounted", n, len(all))
		}
		parallel(len(all), func(i int) error { return v.RunReady(t.Context(), "faasnet", all[i].lazy) })
		mounts := must(lab.Mounts(v.daemon.Root()))(t)
		if want := 1 + len(all); len(mounts) != want { // the one that serves layers, and one an image
			t.Errorf("mounts %v, want %d", mounts, want)
		}
		// busybox and 8 layers, for each other image its own layer, and an index layer for each.
		if n, want := len(v.snapshots()), 9+4+len(all); n != want {
			t.Errorf("%d snapshots, want %d", n, want)
		}
		for _, dir := range must(filepath.Glob(filepath.Join(v.host.Dir(), "mount*")))(t) {
			v.check(v.Unmount(t.Context(), "faasnet", dir))
		}
		for _, img := range all {
			must(v.Ctr(t.Context(), "image", "rm", "--sync", img.lazy))(t)
		}
		if t.Failed() {
			return
		}
	}
}
