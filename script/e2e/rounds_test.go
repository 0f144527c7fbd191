package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// footprint is what a daemon holds.
type footprint struct {
	goroutines, fds, mounts int
	rss, heap, disk         int64 // bytes
}

func (v *vm) footprint() footprint {
	v.Helper()
	m := must(v.daemon.Metrics(v.Context()))(v)
	return footprint{
		goroutines: int(m["go_goroutines"]),
		fds:        int(m["process_open_fds"]),
		mounts:     len(must(lab.Mounts(v.host.Dir()))(v)),
		rss:        int64(m["process_resident_memory_bytes"]),
		heap:       int64(m["go_memstats_heap_inuse_bytes"]),
		disk:       diskUsage(v, v.daemon.Root()),
	}
}

// settle waits until the daemon's footprint is like an earlier one; what is
// released behind the caller's back takes a moment.
func (v *vm) settle(base footprint) footprint {
	v.Helper()
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		f := v.footprint()
		if f.goroutines <= base.goroutines+3 && f.fds <= base.fds+3 && f.mounts == base.mounts && f.disk <= base.disk+1<<20 {
			return f
		}
		if time.Now().After(end) {
			v.Errorf("after %v the daemon holds %+v, at first it held %+v", patience, f, base)
			return f
		}
	}
}

// quiet returns the daemon's footprint once it stays the same for a second.
func (v *vm) quiet() footprint {
	v.Helper()
	last, same := v.footprint(), 0
	for same < 10 {
		time.Sleep(100 * time.Millisecond)
		f := v.footprint()
		if f.goroutines == last.goroutines && f.fds == last.fds && f.mounts == last.mounts && f.disk == last.disk {
			same++
		} else {
			same = 0
		}
		last = f
	}
	return last
}

// Pulling, running and removing an image leaves nothing behind, and the
// hundredth round is as quick as the first.
func TestMC05_Rounds(t *testing.T) {
	rounds := 8
	if soak {
		rounds = 100
	}
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	images := []killed{v.killed("kill", 1), v.killed("keep", 100)}
	round := func(i int) time.Duration {
		k := images[i%2]
		begin := time.Now()
		v.check(v.Pull(t.Context(), "faasnet", k.lazy))
		v.readAll(k, false)
		took := time.Since(begin)
		must(v.Ctr(t.Context(), "image", "rm", "--sync", k.lazy))(t)
		return took
	}
	const warm = 2 // pools fill, registries are met
	for i := range warm {
		round(i)
	}
	base := v.quiet()
	times := make([]time.Duration, 0, rounds)
	for i := range rounds {
		times = append(times, round(i))
	}
	end := v.settle(base)
	part := max(1, rounds/5)
	t.Logf("%d rounds, median of the first %d %v, of the last %v; at first %+v, at the end %+v", rounds, part, median(times[:part]), median(times[rounds-part:]), base, end)
	if grown := end.rss - base.rss; grown > 30<<20 {
		t.Errorf("the daemon grew by %d bytes in %d rounds", grown, rounds)
	}
}

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// Removing an image gives its disk space back, but what another image shares
// stays.
func TestGD01_RemovedImageLeavesTheCache(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	k := v.killed("kill", 1)
	other := v.killed("keep", 100)
	v.check(v.Pull(t.Context(), "faasnet", other.lazy))
	v.readAll(other, false)
	before := v.quiet().disk
	v.check(v.Pull(t.Context(), "faasnet", k.lazy))
	v.readAll(k, false)
	if used := diskUsage(t, v.daemon.Root()) - before; used < k.bytes {
		t.Fatalf("the cache holds %d bytes of an image of %d", used, k.bytes)
	}
	must(v.Ctr(t.Context(), "image", "rm", "--sync", k.lazy))(t)
	v.waitForStore(before + 1<<20)
	sent := must(v.link.Sent())(t)
	v.readAll(other, false)
	if n := must(v.link.Sent())(t) - sent; n > 64<<10 {
		t.Errorf("%d bytes of the other image were fetched again", n)
	}
}

// One process ends within seconds of being asked, whatever it serves.
func TestStopWithContainersRunning(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	k := v.killed("kill", 1)
	v.check(v.Pull(t.Context(), "faasnet", k.lazy))
	c := must(v.Attach(t.Context(), "faasnet", k.lazy, "/bin/sh", "-c", "exec 3</data/0-0; echo begin; read end"))(t)
	if line := must(c.Line())(t); line != "begin" {
		t.Fatalf("the container prints %q", line)
	}
	v.check(v.daemon.Stop(20 * time.Second))
	v.restart()
	v.readAll(k, false)
	v.check(c.Kill(t.Context()))
}
