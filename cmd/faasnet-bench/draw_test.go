package main

import (
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	row := burstRow{PerVM: []burstVM{
		{VM: "vm0", Ready: 1, RegistryBytes: 20e6, Upstreams: []string{"", "vm1"}, From: map[string]int64{"vm1": 10e6}},
		{VM: "vm1", Ready: 2, RegistryBytes: 21e6, Upstreams: []string{"vm0", ""}, From: map[string]int64{"vm0": 11e6}},
		{VM: "vm2", Ready: 3, RegistryBytes: 3e6, Upstreams: []string{"vm0", "vm1"}, From: map[string]int64{"vm0": 12e6, "vm1": 13e6, "vm3": 1e6}},
		{VM: "vm3", Ready: 4, Upstreams: []string{"vm1", "vm1"}, From: map[string]int64{"vm1": 14e6}},
	}}
	var b strings.Builder
	if err := draw(&b, row); err != nil {
		t.Fatal(err)
	}
	want := `blocks 0, 2, 4 and so on:
registry
└─ 20.0 MB ─ vm0, READY after 1.0 s
   ├─ 11.0 MB ─ vm1, READY after 2.0 s
   │  └─ 14.0 MB of all blocks ─ vm3, READY after 4.0 s
   └─ 12.0 MB ─ vm2, READY after 3.0 s

blocks 1, 3, 5 and so on:
registry
└─ 21.0 MB ─ vm1, READY after 2.0 s
   ├─ 10.0 MB ─ vm0, READY after 1.0 s
   ├─ 13.0 MB ─ vm2, READY after 3.0 s
   └─ 14.0 MB of all blocks ─ vm3, READY after 4.0 s

beside the tree: vm2 read 1.0 MB from vm3
beside the tree: vm2 read 3.0 MB from the registry
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
