package sim

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// life is a container that runs beside the test: it reads what a start needs,
// then the rest of the image is fetched, and it stays until end.
type life struct {
	v      *vm
	m      *image
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex // guards what follows
	c  *container
}

// run starts the function of m on the VM.
func (v *vm) run(m *image, work []span, atOnce int) {
	ctx, cancel := context.WithCancel(background)
	l := &life{v: v, m: m, cancel: cancel, done: make(chan struct{})}
	v.life = l
	go func() {
		defer close(l.done)
		time.Sleep(bootTime)
		l.live(ctx, work, atOnce)
	}()
}

// lives is the VM's container, which run has started.
func (v *vm) lives() *life { return v.life.(*life) }

func (l *life) live(ctx context.Context, work []span, atOnce int) {
	c, err := l.v.create(ctx, l.m)
	defer func() { c.close() }()
	for l.is(c); err != nil; l.is(c) { // the node tries again for as long as containerd asks
		if ctx.Err() != nil {
			return
		}
		failed := append(c.failed, err)
		time.Sleep(time.Second)
		c.close()
		c, err = l.v.create(ctx, l.m)
		c.failed = append(failed, c.failed...)
	}
	_ = c.read(ctx, work, atOnce) // what fails is kept
	for _, layer := range c.layers[:len(c.layers)-l.v.w.o.held] {
		layer.Fill()
	}
	<-ctx.Done()
}

func (l *life) is(c *container) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c = c
}

func (l *life) container() *container {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// end stops the container.
func (l *life) end() {
	l.cancel()
	<-l.done
}

// complete reports whether the whole image is here, but for what is held back.
func (l *life) complete() bool {
	c := l.container()
	return c != nil && c.created() && c.complete(l.v.w.o.held)
}

// failed returns the reads that failed.
func (l *life) failed() []error {
	c := l.container()
	if c == nil {
		return []error{fmt.Errorf("%s has not begun to read", l.v.name)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.failed...)
}

// right checks every byte of the image, read through the VM, and every block in
// its store.
func (l *life) right() error {
	for i := range len(l.m.layers) - l.v.w.o.held {
		if err := l.more(l.m.part(i, l.m.layers[i].Table.BlockSize(), 1)); err != nil {
			return err
		}
	}
	return l.v.holdsRight(l.m)
}

// more makes the container read more.
func (l *life) more(spans []span) error {
	c := l.container()
	if c == nil || !c.created() {
		return fmt.Errorf("%s has not begun to read", l.v.name)
	}
	return c.read(background, spans, 1)
}
