package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// fleet is VMs that share function trees.
type fleet struct {
	*vm  // without a host: images, and the test
	tree *lab.Coordinator
	vms  []*lab.VM
}

// in is the same fleet for a part of the test.
func (f *fleet) in(t testing.TB) *fleet {
	t.Helper()
	return &fleet{vm: &vm{world: f.world, TB: t}, tree: f.tree, vms: f.vms}
}

func newFleet(t *testing.T, vms int, rate string) *fleet {
	t.Helper()
	w := must(theWorld())(t)
	f := &fleet{vm: &vm{world: w, TB: t}}
	name := fmt.Sprintf("f%d", w.vms.Add(1))
	link := must(w.hub.Link(""))(t)
	host := must(w.Host(name+"tree", link))(t)
	t.Cleanup(func() {
		if t.Failed() && f.tree != nil {
			t.Logf("coordinator: %s", f.tree.Tail())
		}
		f.soft(host.Close())
		f.soft(link.Close())
	})
	f.tree = must(host.Coordinator(t.Context(), lab.CoordinatorConfig{}))(t)
	var err error
	f.vms, err = w.hub.Fleet(t.Context(), lab.Fleet{
		Name: name + "vm", VMs: vms, Rate: rate, HostsDir: w.hosts, Release: lab.Current,
		Daemon: &lab.DaemonConfig{NoBackground: true, Coordinator: f.tree},
	})
	for _, v := range f.vms {
		t.Cleanup(func() {
			if t.Failed() {
				(&vm{TB: t, daemon: v.Daemon, Containerd: v.Containerd}).tell()
			}
			f.soft(v.Close())
		})
	}
	f.check(err)
	return f
}

// soft reports an error of a clean-up.
func (f *fleet) soft(err error) {
	f.Helper()
	if err != nil {
		f.Error(err)
	}
}

// burst pulls the image on all VMs at once and reads all its files. Wrong
// bytes fail the test, and so do missing ones unless the VM may fail.
func (f *fleet) burst(k killed, mayFail func(*lab.VM) bool) {
	f.Helper()
	var wg sync.WaitGroup
	for _, v := range f.vms {
		wg.Go(func() {
			if err := v.Containerd.Pull(f.Context(), "faasnet", k.lazy); err != nil {
				if !mayFail(v) {
					f.Error(err)
				}
				return
			}
			out, err := v.Containerd.Exec(f.Context(), "faasnet", k.lazy, "/bin/sh", "-c", sumAll)
			seen := map[string]bool{}
			for line := range strings.Lines(out) {
				line = strings.TrimSpace(line)
				seen[line] = true
				if !k.lines[line] {
					f.Errorf("%s: a container read %q, which the image does not hold", v.Name(), line)
				}
			}
			if !mayFail(v) && (err != nil || !maps.Equal(seen, k.lines)) {
				f.Errorf("%s: a container read %d of %d files: %v", v.Name(), len(seen), len(k.lines), err)
			}
		})
	}
	wg.Wait()
}

// fetched sums up what daemons say that came from a source, in bytes, and
// fails the test when a read of a container failed or a block was bad.
func (f *fleet) fetched(source string, vms ...*lab.VM) (n float64) {
	f.Helper()
	for _, v := range vms {
		for series, value := range must(v.Daemon.Metrics(f.Context()))(f) {
			switch {
			case strings.HasPrefix(series, "faasnet_fetch_bytes_total{") && strings.Contains(series, source):
				n += value
			case strings.HasPrefix(series, "faasnet_fuse_read_errors_total") || strings.HasPrefix(series, "faasnet_fetch_bad_blocks_total"):
				if value > 0 {
					f.Errorf("%s: %s is %v", v.Name(), series, value)
				}
			}
		}
	}
	return n
}

// Four VMs start one image at the same moment: the registry sends it about
// once, and the VMs give each other the rest. Then one of them dies in the
// middle of the next burst, and the others do not notice.
func TestBurst(t *testing.T) {
	f := newFleet(t, 4, "100mbit")
	all, inner := f.killed("burst", 50), f.killed("burst-kill", 150)
	never := func(*lab.VM) bool { return false }

	t.Run("PN-04 the registry sends a block once", func(t *testing.T) {
		f := f.in(t)
		before := must(f.link.Sent())(f)
		f.burst(all, never)
		if t.Failed() {
			return
		}
		ratio := float64(must(f.link.Sent())(f)-before) / float64(all.bytes)
		peers, registry := f.fetched(`source="peer"`, f.vms...), f.fetched(`source="registry"`, f.vms...)
		t.Logf("the registry sent %.2f times the image; %.1f MB from it, %.1f MB from peers", ratio, registry/1e6, peers/1e6)
		if ratio > 1.3 {
			t.Errorf("the registry sent %.2f times the image", ratio)
		}
		if want := 0.8 * float64(len(f.vms)-1) * float64(all.bytes); peers < want {
			t.Errorf("%.0f bytes came from peers, want %.0f", peers, want)
		}
	})

	t.Run("PN-01 an inner VM is killed", func(t *testing.T) {
		f := f.in(t)
		before := must(f.link.Sent())(f)
		var mu sync.Mutex
		var victim *lab.VM
		struck := func(v *lab.VM) bool {
			mu.Lock()
			defer mu.Unlock()
			return v == victim
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.burst(inner, struck)
		}()
		// A third of the image has left the registry.
		for must(f.link.Sent())(f)-before < inner.bytes/3 {
			select {
			case <-done:
				t.Error("the burst ended before a third of the image was sent")
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		mu.Lock()
		victim = f.inner()
		mu.Unlock()
		f.check(victim.Fail(lab.Kill))
		<-done
		others := slices.DeleteFunc(slices.Clone(f.vms), func(v *lab.VM) bool { return v == victim })
		ratio := float64(must(f.link.Sent())(f)-before) / float64(inner.bytes)
		t.Logf("%s was killed; the registry sent %.2f times the image", victim.Name(), ratio)
		f.fetched("", others...)
		if ratio > 2.3 { // 1 + dead VMs, and what is around
			t.Errorf("the registry sent %.2f times the image", ratio)
		}
	})
}

// inner is a VM that has others below it and is not the first root.
func (f *fleet) inner() *lab.VM {
	f.Helper()
	nodes := must(f.tree.Nodes(f.Context()))(f)
	for _, n := range nodes {
		feeds := slices.ContainsFunc(nodes, func(o lab.Node) bool { return slices.Contains(o.Upstreams, n.VM) })
		if !feeds || n.Upstreams[0] == "" {
			continue
		}
		for _, v := range f.vms {
			if v.Name() == n.VM {
				return v
			}
		}
	}
	f.Fatalf("no inner VM in %+v", nodes)
	return nil
}
