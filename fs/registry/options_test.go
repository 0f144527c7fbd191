package registry

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"connect": {Connect: -1}, "idle": {Idle: -1}, "budget": {Budget: -1}, "backoff": {Backoff: -1}, "max": {MaxBackoff: -1},
		"attempts": {Attempts: -1}, "per host": {PerHost: -1}, "spool": {SpoolBytes: -1},
	} {
		if _, err := New(o); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := Options{Idle: time.Second}.complete()
	if err != nil || o.Connect != 3*time.Second || o.Idle != time.Second || o.Budget != time.Minute {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	reg := registrytest.New(t, registrytest.Options{Auth: &registrytest.Auth{Users: users}})
	l := addLayer(t, reg, "a/b", 1<<16)
	o := fast
	o.Registerer, o.Credentials = r, static("u", "p")
	c := newClient(t, o)
	reg.Next(registrytest.Of(registrytest.Blobs), registrytest.Fault{Status: 503})
	l.read(t.Context(), t, blobs(t, c, reg.Host()+"/a/b"), 0, 1000)
	if _, err := blobs(t, c, reg.Host()+"/none").ReadBlock(t.Context(), l.ref(0, 10), nil); err == nil {
		t.Error("no error")
	}
	got := map[string]float64{}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "faasnet_registry_")
			for _, p := range m.GetLabel() {
				name += " " + p.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"blocks_total ok": 1, "blocks_total error": 1, "received_bytes_total": 1000, "retries_total": 1,
		"token_requests_total ok": 2, "block_seconds": 2, "requests_total 5xx": 1, "requests_total 2xx": 3,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v; all: %v", name, got[name], want, got)
		}
	}
	if _, err := New(Options{Registerer: r}); err == nil {
		t.Error("two clients on one registerer")
	}
}

// BenchmarkReadBlock reads blocks of 512 KiB over loopback, 8 at a time.
func BenchmarkReadBlock(b *testing.B) {
	const size = 512 << 10
	reg, err := registrytest.Start(registrytest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer reg.Close()
	d, _, err := reg.AddBlob("a/b", strings.NewReader(strings.Repeat("x", 64*size)))
	if err != nil {
		b.Fatal(err)
	}
	c, err := New(Options{PlainHTTP: []string{reg.Host()}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s, err := c.Blobs(reg.Host() + "/a/b")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 0, size)
		for i := 0; pb.Next(); i++ {
			ref := layer{digest: d}.bare(i%64*size, size)
			if _, err := s.ReadBlock(context.Background(), ref, buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
