package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/fs/fetch"
)

// container is one start of a function on a VM.
type container struct {
	v      *vm
	m      *image
	layers []*fetch.Layer
	ready  time.Duration // after which it had read all it reads; 0: it did not get there

	closing sync.Once

	mu      sync.Mutex // guards what follows
	failed  []error
	slowest time.Duration
}

// span is a range of a layer that a container reads.
type span struct {
	layer int
	off   int64
	n     int
}

// create does what the node does before a container runs: a place in the tree,
// the image section, the layers.
func (v *vm) create(ctx context.Context, m *image) (*container, error) {
	c := &container{v: v, m: m}
	u := v.up
	u.catalog.Add(m.function, m.ref)
	if !v.w.o.noTree {
		_, _ = u.client.Join(ctx, m.function) // without a place the origin is read
	}
	p, err := u.fetcher.ReadBlock(ctx, m.ref, nil)
	if err == nil && !bytes.Equal(p, m.section) {
		err = errWrong
	}
	if err != nil {
		return c, fmt.Errorf("%s: section: %w", v.name, err)
	}
	u.catalog.SetLayers(m.function, m.catalog())
	for _, l := range m.layers {
		layer, err := u.fetcher.Layer(l.Digest, l.Table)
		if err != nil {
			return c, fmt.Errorf("%s: %w", v.name, err)
		}
		c.layers = append(c.layers, layer)
	}
	return c, nil
}

var errWrong = errors.New("wrong bytes")

// view reads one span and checks it.
func (c *container) view(ctx context.Context, s span) error {
	began := time.Now()
	if waits := c.v.w.o.hooks.waits; waits != nil {
		defer waits(c, s)()
	}
	err := c.check(ctx, s)
	d := time.Since(began)
	c.v.ownReads.Add(int64(s.n))
	c.mu.Lock()
	c.slowest = max(c.slowest, d)
	c.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s at %v, layer %d, %d bytes at %d after %v: %w", c.v.name, c.v.w.now(), s.layer, s.n, s.off, d, err)
		c.fail(err)
	}
	return err
}

// fail keeps what went wrong, unless the container itself was ended.
func (c *container) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, err)
}

func (c *container) check(ctx context.Context, s span) error {
	got, err := c.layers[s.layer].View(ctx, s.off, s.n)
	if err != nil {
		return err
	}
	if got.Done != nil {
		defer got.Done()
	}
	p := got.Data
	if got.File != nil {
		p = make([]byte, got.Len)
		if _, err := got.File.ReadAt(p, got.Offset); err != nil {
			return err
		}
	}
	if !bytes.Equal(p, c.m.layers[s.layer].Stream[s.off:][:s.n]) {
		return errWrong
	}
	return nil
}

// read reads spans in order, some at a time.
func (c *container) read(ctx context.Context, spans []span, atOnce int) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, s := range spans {
		g.Go(func() error { return c.view(ctx, s) })
	}
	return g.Wait()
}

// holdsRight checks every block of the image that the VM stores.
func (v *vm) holdsRight(m *image) error {
	for _, l := range m.layers {
		for i := range l.Table.Len() {
			p, err := v.up.store.ReadBlock(background, l.Ref(i), nil)
			if err == nil && !bytes.Equal(p, l.Frame(i)) {
				return fmt.Errorf("%s stores %v: %w", v.name, l.Ref(i), errWrong)
			}
		}
	}
	return nil
}

func (c *container) complete(held int) bool {
	for _, l := range c.layers[:len(c.layers)-held] {
		if !l.Complete() {
			return false
		}
	}
	return true
}

// created reports whether create has succeeded.
func (c *container) created() bool { return len(c.layers) == len(c.m.layers) }

// close may be called again.
func (c *container) close() {
	c.closing.Do(func() {
		for _, l := range c.layers {
			if err := l.Close(); err != nil {
				c.v.w.t.Errorf("%s: %v", c.v.name, err)
			}
		}
	})
}

// part returns spans of so many bytes that cover the first part of a layer.
func (m *image) part(layer, step int, part float64) (out []span) {
	size := int64(float64(len(m.layers[layer].Stream)) * part)
	for off := int64(0); off < size; off += int64(step) {
		out = append(out, span{layer, off, int(min(int64(step), size-off))})
	}
	return out
}
