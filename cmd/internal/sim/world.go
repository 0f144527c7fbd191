package sim

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/peer/peertest"
	"github.com/faasnet/faasnet/treeclient"
)

const mbit = 1_000_000 / 8 // bytes a second

// bootTime is how long a VM is up before a container starts on it: enough to
// attend the coordinator.
const bootTime = 20 * time.Millisecond

// fleet is what a world is made of.
type fleet struct {
	form     tree.Form     // default tree.Striped
	rate     int64         // of each VM's link, each way, in bytes a second
	registry int64         // rate of the registry's; default that of a VM
	latency  time.Duration // one way; default 300 us
	window   int           // of a connection, see peertest.Net
	segment  int
	noTree   bool // VMs do not know the coordinator
	deaf     bool // no VM's relay can be connected to
	noFill   bool // VMs fetch what their containers read, no more
	images   []*image
	flat     int64 // decoded bytes that a VM keeps, see store.Options
	held     int   // layers, the last, that containers leave alone
	hooks    hooks

	cores  int   // of each VM; 0: a processor costs nothing
	shared bool  // those cores are all that VMs and registry have together
	costs  Costs // of what comes and goes, in bytes as they are here
}

// hooks stand between the parts of a VM and break them on purpose. Any may be
// nil.
type hooks struct {
	asks  func(*vm, *peer.Relay) fetch.Upstreams // whom its fetcher asks
	gives func(*vm, peer.Blocks) peer.Blocks     // what its relay gives
	moves func(*vm, treeclient.Place) bool       // whether it acts on a new place
	waits func(*container, span) (done func())   // hears what a container reads
	comes func(*vm, block.Ref)                   // hears of a block's first bytes
}

// world is a fleet in virtual time.
type world struct {
	t       *testing.T
	o       fleet
	net     peertest.Net
	dir     string
	reg     *registrytest.Registry
	regHost *peertest.Host
	asked   ledger
	tree    *coordinatorHost
	vms     []*vm
	began   time.Time
	work    sync.WaitGroup // of what goes on beside the test
	cpu     *cores         // of all together; nil: each VM has its own, or none
}

// inWorld runs a test in a bubble, with a registry and a coordinator.
func inWorld(t *testing.T, o fleet, test func(*world)) {
	t.Helper()
	dir, remove := scratch(t)
	defer remove()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, o: o, dir: dir, began: time.Now()}
		w.net.Latency = cmp.Or(o.latency, 300*time.Microsecond)
		w.net.Window, w.net.Segment = o.window, o.segment
		if o.shared {
			w.cpu = newCores(o.cores)
		}
		w.regHost = w.net.Host("10.255.0.2", cmp.Or(o.registry, o.rate))
		reg, err := registrytest.Start(registrytest.Options{Listener: w.regHost.Listen(), Name: w.regHost.Address()})
		if err != nil {
			t.Fatal(err)
		}
		w.reg = reg
		for _, m := range o.images {
			if err := m.push(reg); err != nil {
				t.Fatal(err)
			}
		}
		w.tree = &coordinatorHost{w: w, host: w.net.Host("10.255.0.1", 0)}
		w.tree.start()
		defer w.end()
		test(w)
	})
}

// end heals the network and stops everything.
func (w *world) end() {
	w.work.Wait()
	var wg sync.WaitGroup
	for _, v := range w.vms {
		v.host.Freeze(false)
		wg.Go(v.stop)
	}
	wg.Wait()
	w.tree.kill()
	w.reg.Close()
}

// now is the virtual time since the world began.
func (w *world) now() time.Duration { return time.Since(w.began) }

// add adds n VMs that are up and attend the coordinator.
func (w *world) add(n int) []*vm {
	w.t.Helper()
	var out []*vm
	for range n {
		v := w.host()
		v.boot()
		out = append(out, v)
	}
	return out
}

// host adds a VM that is not up.
func (w *world) host() *vm {
	i := len(w.vms)
	v := &vm{w: w, number: i, name: fmt.Sprintf("vm%03d", i), dir: filepath.Join(w.dir, strconv.Itoa(i)), decoded: map[decoded]bool{}}
	v.host = w.net.Host(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), w.o.rate)
	if v.cpu = w.cpu; v.cpu == nil && w.o.cores > 0 {
		v.cpu = newCores(w.o.cores)
	}
	w.vms = append(w.vms, v)
	return v
}

// named returns the VM of that name.
func (w *world) named(name string) *vm {
	return w.vms[slices.IndexFunc(w.vms, func(v *vm) bool { return v.name == name })]
}

// egress returns the bytes that have left the registry.
func (w *world) egress() int64 {
	sent, _ := w.regHost.Bytes()
	return sent
}

// all runs f for all VMs at once.
func all[T any](vms []*vm, f func(*vm) T) []T {
	out := make([]T, len(vms))
	var wg sync.WaitGroup
	for i, v := range vms {
		wg.Go(func() { out[i] = f(v) })
	}
	wg.Wait()
	return out
}

// within waits until ok, for so long.
func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (w *world) logf(format string, a ...any) {
	if os.Getenv(verbose) != "" {
		w.t.Logf("%8.3f "+format, append([]any{w.now().Seconds()}, a...)...)
	}
}

var background = context.Background()
