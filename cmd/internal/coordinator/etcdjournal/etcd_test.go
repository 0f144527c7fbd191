package etcdjournal

import (
	"errors"
	"maps"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// burst lets n VMs join a function and waits until all have places.
func (w *world) burst(f string, n int, coordinators ...string) []*vm {
	w.t.Helper()
	var vms []*vm
	for i := range n {
		v := w.vm(i, coordinators...)
		w.until("a VM has a place", func() bool {
			_, err := v.Join(w.t.Context(), f)
			return err == nil
		})
		vms = append(vms, v)
	}
	return vms
}

// keep fails when a VM loses its place in f before the function that it
// returns is called.
func (w *world) keep(f string, vms []*vm) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for i, v := range vms {
				if _, ok := v.Place(f); !ok {
					w.t.Errorf("vm%d has lost its place", i)
					return
				}
			}
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() { close(end); <-done }
}

func TestTreesAreReadAgainAfterARestart(t *testing.T) {
	w := newWorld(t)
	c := w.start("")
	const f = "sha256:f"
	vms := w.burst(f, 6, c.address)
	before := c.Tree(key(f))
	w.until("the tree is written", func() bool { return maps.Equal(shape(w.stored(f)), shape(before)) })
	kept := w.keep(f, vms)
	c.stop()
	if got := w.stored(f); !maps.Equal(shape(got), shape(before)) {
		t.Errorf("after the stop etcd has %v", shape(got))
	}
	c = w.start(c.address)
	w.until("all VMs are back", func() bool { return len(c.Tree(key(f)).GetNodes()) == len(vms) })
	kept()
	after := c.Tree(key(f))
	if !maps.Equal(shape(after), shape(before)) || after.Epoch <= before.Epoch {
		t.Errorf("the tree was %v at %d and is %v at %d", shape(before), before.Epoch, shape(after), after.Epoch)
	}
	for _, v := range vms {
		v.Leave(f)
	}
	w.until("the tree ends", func() bool { return c.Tree(key(f)) == nil && w.stored(f) == nil })
}

func TestVMsThatDoNotComeBackAreDropped(t *testing.T) {
	w := newWorld(t)
	w.settle = 2 * time.Second
	c := w.start("")
	const f = "sha256:f"
	vms := w.burst(f, 4, c.address)
	w.until("the tree is written", func() bool { return len(w.stored(f).GetNodes()) == 4 })
	c.stop()
	for _, v := range vms[:2] {
		v.stop()
	}
	c = w.start(c.address)
	w.until("the two are gone", func() bool { return len(c.Tree(key(f)).GetNodes()) == 2 && len(w.stored(f).GetNodes()) == 2 })
}

func TestFunctionsAreSpreadAndMove(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.start(""), w.start(""), w.start("")
	w.seeEachOther(a, b, c)
	all := []string{a.address, b.address, c.address}
	f := w.owned(b)
	vms := w.burst(f, 5, all...) // all ask a first
	if a.Tree(key(f)) != nil || c.Tree(key(f)) != nil || len(b.Tree(key(f)).GetNodes()) != 5 {
		t.Fatal("the function is not where it belongs")
	}
	before := shape(b.Tree(key(f)))
	heir := a
	if a.journal.ring.Load().owner(key(f), a.address, []string{b.address}) == c.address {
		heir = c
	}
	kept := w.keep(f, vms)
	b.stop()
	took := w.until("the heir has all VMs", func() bool { return len(heir.Tree(key(f)).GetNodes()) == 5 })
	if got := shape(heir.Tree(key(f))); !maps.Equal(got, before) {
		t.Errorf("the tree was %v and is %v", before, got)
	}
	t.Logf("stop of the owner: all VMs at the heir after %v", took)
	// The owner comes back and gets its function back.
	b = w.start(b.address)
	took = w.until("the owner has all VMs again", func() bool {
		return len(b.Tree(key(f)).GetNodes()) == 5 && heir.Tree(key(f)) == nil
	})
	kept()
	if got := shape(b.Tree(key(f))); !maps.Equal(got, before) {
		t.Errorf("the tree was %v and is %v", before, got)
	}
	t.Logf("return of the owner: all VMs there after %v", took)
}

func TestEtcdThatIsSickDoesNotBlockMembership(t *testing.T) {
	for name, sick := range map[string]struct{ begin, end func(*world) }{
		"frozen": {func(w *world) { w.etcd.Freeze() }, func(w *world) { w.etcd.Thaw() }},
		"dead":   {func(w *world) { w.etcd.Kill() }, func(w *world) { w.etcd.Run() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.start("")
			vms := w.burst("before", 2, c.address)
			w.until("the tree is written", func() bool { return len(w.stored("before").GetNodes()) == 2 })
			sick.begin(w)
			w.until("the coordinator is blind", c.journal.blind)
			for _, v := range vms {
				if _, err := v.Join(t.Context(), "during"); err != nil {
					t.Errorf("join: %v", err)
				}
			}
			vms[1].Leave("before")
			w.until("the VM has left", func() bool { return len(c.Tree(key("before")).GetNodes()) == 1 })
			sick.end(w)
			w.until("etcd has it all", func() bool {
				return len(w.stored("during").GetNodes()) == 2 && len(w.stored("before").GetNodes()) == 1
			})
			w.until("the coordinator sees", func() bool { return !c.journal.blind() })
		})
	}
}

func TestEtcdIsAwayAtTheStart(t *testing.T) {
	w := newWorld(t)
	w.etcd.Kill()
	c := w.start("")
	w.burst("f", 2, c.address)
	w.etcd.Run()
	w.until("etcd has the tree", func() bool { return len(w.stored("f").GetNodes()) == 2 })
}

func TestOwnerThatIsDeadWhileEtcdIsAway(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(""), w.start("")
	w.seeEachOther(a, b)
	f := w.owned(b)
	w.etcd.Kill()
	w.until("the coordinators are blind", func() bool { return a.journal.blind() && b.journal.blind() })
	b.stop() // nobody can know
	v := w.vm(1, a.address)
	w.until("the VM has a place all the same", func() bool {
		v.Join(t.Context(), f)
		_, ok := v.Place(f)
		return ok && a.Tree(key(f)) != nil
	})
}

func TestWhoHasLostItsKeyDoesNotWrite(t *testing.T) {
	w := newWorld(t)
	c := w.start("")
	v := w.burst("f", 1, c.address)[0]
	w.until("the tree is written", func() bool { return w.stored("f") != nil })
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	r := &run{Journal: c.journal, etcd: etcd, trees: c.Coordinator}
	c.journal.mu.Lock()
	fence := c.journal.fence
	c.journal.mu.Unlock()
	if err := r.write(t.Context(), key("f"), fence-1); !errors.Is(err, errKeyLost) {
		t.Errorf("a write behind the fence: %v", err)
	}
	// It finds out, and takes a new key.
	w.until("a new key is held", func() bool {
		c.journal.mu.Lock()
		defer c.journal.mu.Unlock()
		return c.journal.fence > fence
	})
	v.Leave("f")
	w.until("writes go on", func() bool { return w.stored("f") == nil })
}

func TestDamagedTreesInEtcdAreIgnored(t *testing.T) {
	w := newWorld(t)
	w.settle = 2 * time.Second
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	good, err := encode(&treepb.Tree{Function: &treepb.Function{Id: "good"}, Stripes: 2, Nodes: []*treepb.Node{{Peer: &treepb.Peer{Vm: "x"}, Upstreams: []string{"", ""}}}})
	if err != nil {
		t.Fatal(err)
	}
	j := Journal{opts: Options{Prefix: DefaultPrefix}}
	for k, v := range map[string]string{
		j.treeKey(key("bad")): "\x01garbage", j.treeKey(key("good")): string(good), DefaultPrefix + "trees/x": "", DefaultPrefix + "coordinators/empty": "",
	} {
		if _, err := etcd.Put(t.Context(), k, v); err != nil {
			t.Fatal(err)
		}
	}
	c := w.start("")
	w.until("the good one is read", func() bool { return c.Tree(key("good")) != nil })
	if c.Tree(key("bad")) != nil {
		t.Error("a tree of garbage")
	}
	w.until("nobody comes, and it ends", func() bool { return c.Tree(key("good")) == nil && w.stored("good") == nil })
	w.burst("bad", 1, c.address)
}
