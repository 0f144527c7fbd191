package e2e

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// killed is an image whose files are known: what sha256sum prints of each.
type killed struct {
	image
	lines map[string]bool
	bytes int64
}

const sumAll = "cd /data && sha256sum *"

func (v *vm) killed(name string, seed byte) killed { v.Helper(); return v.madeOf(name, seed, 4, 8) }

// madeOf is an image of layers with so many files each.
func (v *vm) madeOf(name string, seed byte, layers, files int) killed {
	v.Helper()
	const size = 600 << 10
	k := killed{lines: map[string]bool{}, bytes: int64(layers * files * size)}
	var all []images.Layer
	for l := range layers {
		data := map[string][]byte{}
		var headers []tar.Header
		for f := range files {
			file := fmt.Sprintf("data/%d-%d", l, f)
			data[file] = random(seed+byte(l*files+f), size)
			headers = append(headers, tar.Header{Name: file, Mode: 0o644})
			k.lines[fmt.Sprintf("%x  %s", sha256.Sum256(data[file]), strings.TrimPrefix(file, "data/"))] = true
		}
		all = append(all, entries(data, headers...))
	}
	k.image = v.made(name, all...)
	return k
}

// readAll reads all files in a new container; wrong bytes fail the test, and
// so do missing ones unless the container may fail.
func (v *vm) readAll(k killed, mayFail bool) {
	v.Helper()
	out, err := v.Exec(v.Context(), "faasnet", k.lazy, "/bin/sh", "-c", sumAll)
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if !k.lines[line] {
			v.Errorf("a container read %q, which the image does not hold", line)
		}
		seen[line] = true
	}
	if mayFail {
		return
	}
	if err != nil {
		v.Error(err)
	} else if !maps.Equal(seen, k.lines) {
		v.Errorf("a container read %d of %d files", len(seen), len(k.lines))
	}
}

// The daemon is killed at random moments of a pull and the start after it.
// Nothing that was there is lost, what was fetched is not fetched again, and
// no container ever reads a wrong byte.
func TestRR06_KillDuringPull(t *testing.T) {
	rounds := 8
	if soak {
		rounds = 50
	}
	v := newVM(t, lab.Current, "100mbit", lab.DaemonConfig{})
	keep, k := v.killed("keep", 100), v.killed("kill", 1)
	v.check(v.Pull(t.Context(), "faasnet", keep.lazy))
	v.readAll(keep, false)
	snapshots, only := v.snapshots(), v.quiet().disk

	begin := time.Now()
	v.check(v.Pull(t.Context(), "faasnet", k.lazy))
	v.readAll(k, false)
	whole := time.Since(begin)
	seed := rand.Uint64()
	t.Logf("%d kills within %v of a pull and a run, seed %d", rounds, whole, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	worst := 0.0
	for round := range rounds {
		must(v.Ctr(t.Context(), "image", "rm", "--sync", k.lazy))(t)
		v.waitForStore(only + 1<<20)
		before := must(v.link.Sent())(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if v.Pull(t.Context(), "faasnet", k.lazy) == nil {
				v.readAll(k, true)
			}
		}()
		time.Sleep(time.Duration(rnd.Int64N(int64(whole)))) // the random moment
		v.daemon.Kill()
		v.restart()
		<-done

		for s := range snapshots {
			if !v.snapshots()[s] {
				t.Errorf("round %d: snapshot %s is lost", round, s)
			}
		}
		v.readAll(keep, false)
		v.check(v.Pull(t.Context(), "faasnet", k.lazy))
		v.readAll(k, false)
		// What the kill interrupts is fetched again: at most what was in flight,
		// and the index and manifests.
		ratio := float64(must(v.link.Sent())(t)-before) / float64(k.bytes)
		if worst = max(worst, ratio); ratio > 1.3 {
			t.Errorf("round %d: %.2f times the image was fetched", round, ratio)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("at most %.2f times the image was fetched", worst)
}

// snapshots lists the committed snapshots of our snapshotter.
func (v *vm) snapshots() map[string]bool {
	v.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(must(v.Ctr(v.Context(), "snapshot", "--snapshotter", "faasnet", "ls"))(v)) {
		if f := strings.Fields(line); len(f) > 1 && f[len(f)-1] == "Committed" {
			all[f[0]] = true
		}
	}
	return all
}

// waitForStore waits until the daemon keeps no more than limit bytes on disk.
func (v *vm) waitForStore(limit int64) {
	v.Helper()
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		used := diskUsage(v, v.daemon.Root())
		if used <= limit {
			return
		}
		if time.Now().After(end) {
			v.Fatalf("%v after an image was removed the daemon holds %d bytes, want %d", patience, used, limit)
		}
	}
}

// A container that runs when the daemon is killed may get errors until it is
// started again, never wrong bytes, and the log names it.
func TestRR01_KillUnderARunningContainer(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{NoBackground: true})
	k := v.killed("kill", 1)
	v.check(v.Pull(t.Context(), "faasnet", k.lazy))
	const loop = "cd /data; echo begin; while :; do read go; for f in *; do sha256sum $f 2>&1; done; echo end; done"
	c := must(v.Attach(t.Context(), "faasnet", k.lazy, "/bin/sh", "-c", loop))(t)
	if line := must(c.Line())(t); line != "begin" {
		t.Fatalf("the container prints %q", line)
	}
	v.daemon.Kill()
	v.restart()
	v.check(c.Say("go"))
	failed := 0
	for {
		line := must(c.Line())(t)
		if line == "end" {
			break
		}
		if strings.Contains(line, "rror") {
			failed++
		} else if !k.lines[line] {
			t.Errorf("the container reads %q", line)
		}
	}
	t.Logf("%d of %d files could not be read in the container that ran", failed, len(k.lines))
	if failed > 0 && v.logged("restart this container", "container=default/"+c.ID) != 1 {
		t.Errorf("the log does not name container %s", c.ID)
	}
	v.check(c.Kill(t.Context()))
	v.readAll(k, false)
}

func diskUsage(t testing.TB, dir string) int64 {
	t.Helper()
	return must(lab.DiskUsage(dir))(t)
}
