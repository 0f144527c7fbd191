package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

func TestDraw(t *testing.T) {
	node := func(vm string, up ...string) *treepb.Node {
		return &treepb.Node{
			Peer: &treepb.Peer{Vm: vm, Address: vm + ":1"}, Upstreams: up,
			Joined: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), RelayedBytes: 1 << 30, ReadBytes: 5 << 40,
		}
	}
	var b strings.Builder
	err := draw(&b, &treepb.Tree{
		Function: &treepb.Function{Tenant: "t", Id: "f"}, Epoch: 7, Form: "striped", Stripes: 2,
		Nodes: []*treepb.Node{node("a", "", "b"), node("b", "a", ""), node("c", "a", "b")},
	})
	want := `function f, tenant t: 3 VMs, striped, epoch 7
stripe 0
origin
└─ a a:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
   ├─ b b:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
   └─ c c:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
stripe 1
origin
└─ b b:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
   ├─ a a:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
   └─ c c:1  joined 03:04:05 with 0 blocks, read 5.0 TiB, relayed 1.0 GiB to 0
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	// What is no tree is drawn all the same, and ends.
	if err := draw(&b, &treepb.Tree{Stripes: 1, Nodes: []*treepb.Node{node("", ""), node("a", "a"), {}}}); err != nil {
		t.Error(err)
	}
}
