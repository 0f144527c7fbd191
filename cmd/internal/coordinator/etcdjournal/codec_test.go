package etcdjournal

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

func sample(n int) *treepb.Tree {
	t := &treepb.Tree{Function: &treepb.Function{Tenant: "default", Id: "sha256:f"}, Epoch: 7, Form: "striped", Stripes: 2}
	for i := range n {
		t.Nodes = append(t.Nodes, &treepb.Node{
			Peer:   &treepb.Peer{Vm: fmt.Sprint("vm-", i), Address: fmt.Sprintf("10.%d.%d.%d:7000", i>>16&255, i>>8&255, i&255)},
			Blocks: uint64(i), Upstreams: []string{fmt.Sprint("vm-", i/2), fmt.Sprint("vm-", i/3)}, Depths: []uint32{1, 2},
		})
	}
	return t
}

func TestCodec(t *testing.T) {
	for _, n := range []int{0, 1, 2500} {
		p, err := encode(sample(n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(p)
		if err != nil || !proto.Equal(got, sample(n)) {
			t.Errorf("%d VMs: %v", n, err)
		}
		t.Logf("%d VMs take %d bytes", n, len(p))
	}
	noise := sample(0)
	r := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		noise.Nodes = append(noise.Nodes, &treepb.Node{Peer: &treepb.Peer{Vm: fmt.Sprintf("%x%x%x%x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())}})
	}
	if _, err := encode(noise); !errdefs.IsOutOfRange(err) {
		t.Errorf("more than etcd takes: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	p, err := encode(sample(3))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, p, p[:len(p)-1], {format}, append([]byte{2}, p[1:]...)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if _, err := decode(p); err != nil && !errdefs.IsDataLoss(err) {
			t.Error(err)
		}
	})
}

func TestKeys(t *testing.T) {
	j, err := New(Options{Endpoints: []string{"http://127.0.0.1:1"}, Self: "a:1", Prefix: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []coordinator.Key{{Tenant: "a", Function: "b"}, {Tenant: "a/b", Function: "c"}, {Tenant: "a", Function: "b/c"}, {Tenant: "ä%", Function: "sha256:1/2%2F"}} {
		s := j.treeKey(k)
		if got, ok := j.keyOf(s); !ok || got != k || strings.Count(s, "/") != 4 {
			t.Errorf("%+v is %q is %+v", k, s, got)
		}
	}
	for _, s := range []string{"/p/trees/", "/p/trees/a", "/p/trees/a/", "/p/trees//b", "/p/trees/%zz/b"} {
		if k, ok := j.keyOf(s); ok {
			t.Errorf("%q is %+v", s, k)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no endpoints":  {Self: "a:1"},
		"no address":    {Endpoints: []string{"x"}},
		"negative time": {Endpoints: []string{"x"}, Self: "a:1", TTL: -1},
	} {
		if _, err := New(o); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRing(t *testing.T) {
	r := ring{"a:1", "b:1", "c:1"}
	count := map[string]int{}
	const n = 3000
	for i := range n {
		k := coordinator.Key{Tenant: "t", Function: fmt.Sprint(i)}
		owner := r.owner(k, "a:1", nil)
		count[owner]++
		// A death moves the functions of the dead, and no other.
		for _, left := range []ring{{"b:1", "c:1"}, {"a:1", "c:1"}, {"a:1", "b:1"}} {
			if now := left.owner(k, left[0], nil); now != owner {
				for _, live := range left {
					if live == owner {
						t.Fatalf("%s lives and %d moves to %s", owner, i, now)
					}
				}
			}
		}
		if owner != "a:1" {
			if now := r.owner(k, "a:1", []string{owner}); now == owner || now == "" {
				t.Fatalf("the dead %s keeps %d", now, i)
			}
		}
		if now := r.owner(k, "a:1", []string{"a:1", "b:1", "c:1"}); now != "a:1" {
			t.Fatalf("all others are dead and %s keeps %d", now, i)
		}
	}
	for a, c := range count {
		if c < n/3-n/20 || c > n/3+n/20 {
			t.Errorf("%s keeps %d of %d", a, c, n)
		}
	}
}
