package peer

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/store"
)

// realVM is a relay over a fetcher and a store, on the loopback interface.
func realVM(b *testing.B, name string, l *blocktest.Layer, origin block.Source) (*Relay, *fetch.Fetcher, Peer) {
	b.Helper()
	s, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	c := catalogOf(l)
	r := newReal(b, name, c)
	f, err := fetch.New(s, func(digest.Digest) block.Source { return origin }, fetch.Options{
		Upstreams: r, OnReceive: r.Received, BlobSlots: 16,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		f.Close()
		s.Close()
	})
	return r, f, run(b, r, f)
}

// BenchmarkRelay is one VM that reads blocks and relays each to two children
// while it arrives, everything over the loopback interface on one machine:
// bytes are those that the VM relays, CPU is that of all three VMs.
func BenchmarkRelay(b *testing.B) {
	const blocks = 128
	l := blocktest.Cut(blocktest.Random(1, blocks*block.DefaultSize), block.DefaultSize)
	origin := l.Source()
	for _, stored := range []bool{true, false} {
		name := map[bool]string{true: "stored", false: "cut-through"}[stored]
		b.Run(name, func(b *testing.B) {
			var cpu time.Duration
			for range b.N {
				b.StopTimer()
				parent, pf, at := realVM(b, "parent", l, origin)
				all := func(f *fetch.Fetcher) error {
					var g errgroup.Group
					g.SetLimit(8)
					for i := range blocks {
						g.Go(func() error {
							_, err := f.ReadBlock(context.Background(), l.Ref(i), nil)
							return err
						})
					}
					return g.Wait()
				}
				if stored {
					if err := all(pf); err != nil {
						b.Fatal(err)
					}
				}
				var g errgroup.Group
				var children []*fetch.Fetcher
				for _, name := range []string{"x", "y"} {
					child, cf, _ := realVM(b, name, l, origin)
					if err := child.Place(function, Place{Epoch: 1, Token: tokenOf(b, name), Stripes: []Stripe{{Upstream: at}}}); err != nil {
						b.Fatal(err)
					}
					children = append(children, cf)
				}
				for parent.Children() < 2 {
					time.Sleep(time.Millisecond)
				}
				before := usage(b)
				b.StartTimer()
				for _, f := range append(children, pf) {
					g.Go(func() error { return all(f) })
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				cpu += usage(b) - before
			}
			relayed := float64(2*l.Table.Bytes()) * float64(b.N)
			b.ReportMetric(relayed/b.Elapsed().Seconds()/1e6, "MB/s")
			b.ReportMetric(cpu.Seconds()/(relayed/(1<<30)), "cpu-s/GiB")
		})
	}
}

func usage(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
