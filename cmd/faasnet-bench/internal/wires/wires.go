// Package wires is one VM of a relay, over our protocol and over others: the
// fetcher and the store are the same, only how blocks travel differs. Each
// other protocol is given what it can do best: blocks go on while they arrive,
// and stored ones without a copy where that is possible.
package wires

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/store"
)

// Protocols lists the names of protocols.
func Protocols() []string { return []string{"faasnet", "grpc", "http"} }

// wire is a protocol between VMs.
type wire interface {
	fetch.Upstreams
	// serve serves the blocks of f on l until ctx ends.
	serve(ctx context.Context, l net.Listener, f *fetch.Fetcher) error
	// received is fetch.Options.OnReceive.
	received(ref block.Ref)
}

// Config says what a VM is.
type Config struct {
	Name     string
	Protocol string
	Dir      string // where it keeps blocks
	Above    string // name of the VM that it reads from; "": it has all blocks from the begin
	Upstream string // address of that one
}

// VM is one VM of the relay.
type VM struct {
	config  Config
	load    *Load
	store   *store.Store
	fetcher *fetch.Fetcher
	wire    wire
}

// Open returns a VM that serves nobody yet.
func Open(ctx context.Context, c Config, load *Load) (_ *VM, err error) {
	v := &VM{config: c, load: load}
	if v.store, err = store.Open(filepath.Join(c.Dir, "store"), store.Options{}); err != nil {
		return nil, err
	}
	switch c.Protocol {
	case "faasnet":
		v.wire, err = newRelay(c, load)
	case "grpc":
		v.wire, err = newGRPC(c, load)
	case "http":
		v.wire = newHTTP(c, load)
	default:
		err = fmt.Errorf("protocol %q is none of %q", c.Protocol, Protocols())
	}
	if err != nil {
		return nil, errors.Join(err, v.store.Close())
	}
	nowhere := func(digest.Digest) block.Source { return nil }
	if v.fetcher, err = fetch.New(v.store, nowhere, fetch.Options{Upstreams: v.wire, OnReceive: v.wire.received}); err != nil {
		return nil, errors.Join(err, v.store.Close())
	}
	if c.Above == "" {
		err = load.each(func(ref block.Ref, frame []byte) error { return v.store.Put(ctx, ref, frame) })
	}
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Serve serves other VMs on l until ctx ends. It closes l.
func (v *VM) Serve(ctx context.Context, l net.Listener) error { return v.wire.serve(ctx, l, v.fetcher) }

// Close closes what Open opened, after Serve has returned.
func (v *VM) Close() error { return errors.Join(v.fetcher.Close(), v.store.Close()) }

// Gather gets all blocks, some at a time, as a VM does that only passes on.
func (v *VM) Gather(ctx context.Context) error {
	const atATime = 8 // fetch.DefaultBlobSlots
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for i := range v.load.table.Len() {
		g.Go(func() error {
			_, err := v.fetcher.ReadBlock(ctx, v.load.ref(i), nil)
			return err
		})
	}
	return g.Wait()
}

// Read reads the layer from begin to end, decoded, as a container does.
func (v *VM) Read(ctx context.Context) (err error) {
	layer, err := v.fetcher.Layer(v.load.blob, v.load.table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layer.Close()) }()
	const request = 128 << 10 // of the kernel
	for off := int64(0); off < layer.Size(); off += request {
		span, err := layer.View(ctx, off, int(min(request, layer.Size()-off)))
		if err != nil {
			return err
		}
		if span.Done != nil {
			span.Done()
		}
	}
	return nil
}
