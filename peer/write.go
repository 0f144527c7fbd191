package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

// class orders what waits to be sent.
type class int

const (
	control class = iota // small, never waits for data
	answers              // of GETs for which somebody waits
	pushes
	background // answers of other GETs
	classes
)

// maxControl bounds the control frames that wait, in frames: whoever lets them
// pile up asks much and reads nothing.
const maxControl = 8192

// batch bounds the payload of one write, in bytes. A control frame or an answer
// waits behind one at most.
const batch = 128 << 10

// writeTimeout ends a connection whose other side does not read.
const writeTimeout = 15 * time.Second

// packet is a frame to be sent. Its payload is body, or part of a file.
type packet struct {
	header
	stream uint64 // of the transfer it belongs to
	body   []byte
	file   *os.File
	offset int64
	done   chan error // of capacity 1; nil: nobody waits
}

// writer sends the frames of one connection by class, those of the transfer that
// began first before others of the class: one block that is whole is worth more
// than two halves.
type writer struct {
	conn net.Conn
	up   *uplink

	mu     sync.Mutex // guards queue and err
	queue  [classes][]*packet
	err    error
	filled chan struct{} // holds a token while there may be something to send
}

func newWriter(c net.Conn, up *uplink) *writer {
	return &writer{conn: c, up: up, filled: make(chan struct{}, 1)}
}

// say queues a control frame. It never waits.
func (w *writer) say(k kind, flags uint8, tag uint32, payload []byte) {
	w.put(control, &packet{header: header{k, flags, tag, uint32(len(payload))}, body: payload})
}

// send queues p and waits until it is sent or cannot be. Until then the payload
// is the writer's.
func (w *writer) send(ctx context.Context, c class, p *packet) error {
	p.done = make(chan error, 1)
	w.put(c, p)
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
	}
	if !w.drop(p) { // it is being sent
		return errors.Join(ctx.Err(), <-p.done)
	}
	return ctx.Err()
}

// drop takes p out of the queue, if it is there.
func (w *writer) drop(p *packet) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.queue {
		if i := slices.Index(w.queue[c], p); i >= 0 {
			w.queue[c] = slices.Delete(w.queue[c], i, i+1)
			return true
		}
	}
	return false
}

func (w *writer) put(c class, p *packet) {
	w.mu.Lock()
	err := w.err
	if err == nil && c == control && len(w.queue[c]) >= maxControl {
		err = fmt.Errorf("%d frames wait to be sent: %w", maxControl, errdefs.ErrResourceExhausted)
		w.err = err
	}
	if err == nil {
		w.insert(c, p)
	}
	w.mu.Unlock()
	if err != nil && p.done != nil {
		p.done <- err
	}
	select {
	case w.filled <- struct{}{}:
	default:
	}
}

// insert is called with mu held.
func (w *writer) insert(c class, p *packet) {
	i := len(w.queue[c])
	for i > 0 && w.queue[c][i-1].stream > p.stream {
		i--
	}
	w.queue[c] = slices.Insert(w.queue[c], i, p)
}

// urge makes what is queued of a transfer as urgent as what somebody waits for.
func (w *writer) urge(stream uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := pushes; c < classes; c++ {
		w.queue[c] = slices.DeleteFunc(w.queue[c], func(p *packet) bool {
			if p.stream == stream {
				w.insert(answers, p)
			}
			return p.stream == stream
		})
	}
}

// run sends until ctx ends or the connection fails.
func (w *writer) run(ctx context.Context) error {
	err := w.loop(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	for c := range w.queue {
		for _, p := range w.queue[c] {
			if p.done != nil {
				p.done <- err
			}
		}
		w.queue[c] = nil
	}
	return err
}

func (w *writer) loop(ctx context.Context) error {
	b := &bundle{heads: make([]byte, 0, 64*headerSize)}
	for {
		if err := w.next(b); err != nil {
			return err
		}
		if len(b.packets) == 0 {
			select {
			case <-w.filled:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err := w.write(ctx, b)
		for _, p := range b.packets {
			if p.done != nil {
				p.done <- err
			}
		}
		if err != nil {
			return err
		}
	}
}

// bundle is what goes out in one write. A packet with a file is the last.
type bundle struct {
	packets []*packet
	data    int // bytes of payload that are not control
	heads   []byte
	bufs    net.Buffers
}

// next takes the most urgent packets.
func (w *writer) next(b *bundle) error {
	clear(b.packets)
	b.packets, b.data = b.packets[:0], 0
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	for c := range w.queue {
		n := 0
		for _, p := range w.queue[c] {
			if len(b.packets) >= 64 || class(c) != control && b.data > 0 && b.data+int(p.size) > batch {
				break
			}
			n++
			b.packets = append(b.packets, p)
			if class(c) != control {
				b.data += int(p.size)
			}
			if p.file != nil {
				w.queue[c] = slices.Delete(w.queue[c], 0, n)
				return nil
			}
		}
		w.queue[c] = slices.Delete(w.queue[c], 0, n)
	}
	return nil
}

// write sends the headers and bodies of a bundle in one system call, straight
// from the buffers that the blocks were received in.
func (w *writer) write(ctx context.Context, b *bundle) error {
	if err := w.up.wait(ctx, b.data); err != nil {
		return err
	}
	b.heads, b.bufs = b.heads[:0], b.bufs[:0]
	var file *packet
	memory := 0
	for _, p := range b.packets {
		at := len(b.heads)
		b.heads = p.header.append(b.heads)
		b.bufs = append(b.bufs, b.heads[at:])
		if p.file != nil {
			file = p
		} else if len(p.body) > 0 {
			b.bufs = append(b.bufs, p.body)
			if p.kind == frameData {
				memory += len(p.body)
			}
		}
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	bufs := b.bufs // WriteTo uses its receiver up
	if _, err := bufs.WriteTo(w.conn); err != nil {
		return err
	}
	w.up.sent(fromMemory, memory)
	if file == nil {
		return nil
	}
	return w.up.sendFile(w.conn, file.file, file.offset, int(file.size))
}
