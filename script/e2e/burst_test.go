package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/script/lab"
)

// fleet is VMs that share function trees.
type fleet struct {
	*vm  // without a host: images, and the test
	tree *lab.Coordinator
	like lab.Fleet // how VMs are made
	vms  []*lab.VM
}

// in is the same fleet for a part of the test.
func (f *fleet) in(t testing.TB) *fleet {
	t.Helper()
	return &fleet{vm: &vm{world: f.world, TB: t}, tree: f.tree, like: f.like, vms: f.vms}
}

func newFleet(t *testing.T, form string, vms int, rate string) *fleet {
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
	f.tree = must(host.Coordinator(t.Context(), lab.CoordinatorConfig{Form: form}))(t)
	f.like = lab.Fleet{
		Name: name + "vm", VMs: vms, Rate: rate, HostsDir: w.hosts, Release: lab.Current,
		Daemon: &lab.DaemonConfig{NoBackground: true, Coordinator: f.tree},
	}
	f.vms = f.add(t, f.like)
	return f
}

// add gives the fleet's lab more VMs, until the end of t.
func (f *fleet) add(t *testing.T, more lab.Fleet) []*lab.VM {
	t.Helper()
	vms, err := f.hub.Fleet(t.Context(), more)
	for _, v := range vms {
		t.Cleanup(func() {
			if t.Failed() {
				(&vm{TB: t, daemon: v.Daemon, Containerd: v.Containerd}).tell()
			}
			f.soft(v.Close())
		})
	}
	f.check(err)
	return vms
}

// soft reports an error of a clean-up.
func (f *fleet) soft(err error) {
	f.Helper()
	if err != nil {
		f.Error(err)
	}
}

// burst pulls the image on all VMs at once and reads all its files; wait waits
// for some of them. Wrong bytes fail the test, and so do missing ones unless the
// VM may fail.
func (f *fleet) burst(k killed, mayFail func(*lab.VM) bool) (wait func(...*lab.VM)) {
	f.Helper()
	ended := map[*lab.VM]chan struct{}{}
	for _, v := range f.vms {
		ended[v] = make(chan struct{})
		go func() {
			defer close(ended[v])
			f.read(v, k, mayFail)
		}()
	}
	return func(vms ...*lab.VM) {
		for _, v := range vms {
			<-ended[v]
		}
	}
}

func (f *fleet) read(v *lab.VM, k killed, mayFail func(*lab.VM) bool) {
	if err := v.Containerd.Pull(f.Context(), "faasnet", k.lazy); err != nil {
		if !mayFail(v) {
			f.Error(err)
		}
		return
	}
	// The exit says it all: what a container prints in its last moment can be lost
	// on the way through shim and ctr.
	argv := append([]string{"/bin/sh", "-c", checkAll, "sh"}, slices.Sorted(maps.Keys(k.lines))...)
	if out, err := v.Containerd.Exec(f.Context(), "faasnet", k.lazy, argv...); err != nil && !mayFail(v) {
		f.Errorf("%s: %v: %s", v.Name(), err, out)
	}
}

// checkAll compares the files of the image with the lines that sha256sum prints of
// them.
const checkAll = `cd /data && [ $(ls | wc -l) = $# ] && printf '%s\n' "$@" | sha256sum -c`

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
// once, and the VMs give each other the rest.
func TestPN04_Burst(t *testing.T) {
	f := newFleet(t, "", 4, "100mbit")
	k := f.killed("burst", 50)
	before := must(f.link.Sent())(f)
	f.burst(k, func(*lab.VM) bool { return false })(f.vms...)
	if t.Failed() {
		return
	}
	ratio := float64(must(f.link.Sent())(f)-before) / float64(k.bytes)
	peers, registry := f.fetched(`source="peer"`, f.vms...), f.fetched(`source="registry"`, f.vms...)
	t.Logf("the registry sent %.2f times the image; %.1f MB from it, %.1f MB from peers", ratio, registry/1e6, peers/1e6)
	if ratio > 1.3 {
		t.Errorf("the registry sent %.2f times the image", ratio)
	}
	if want := 0.8 * float64(len(f.vms)-1) * float64(k.bytes); peers < want {
		t.Errorf("%.0f bytes came from peers, want %.0f", peers, want)
	}
}
