package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
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

// batch bounds the payload of one write of several frames, in bytes. A control
// frame or an answer waits behind one write at most.
const batch = 128 << 10

// writeTimeout ends a connection whose other side does not read.
const writeTimeout = 15 * time.Second

// packet is a frame to be sent, whose payload is body, or a part of a file that
// goes out in as many frames as that takes.
type packet struct {
	header
	stream uint64 // of the transfer it belongs to
	before []byte // frames that go out right before it
	body   []byte
	file   *os.File
	offset int64
	left   int        // bytes of the file
	done   chan error // of capacity 1; nil: nobody waits

	// Guarded by writer.mu.
	busy     bool // a frame of the file is being sent
	unwanted bool // no further one
	dropped  bool // nothing of it was sent; never said of a file
}

// writer sends the frames of one connection by class, those of the transfer that
// began first before others of the class: one block that is whole is worth more
// than two halves.
type writer struct {
	conn  net.Conn
	raw   syscall.RawConn // of conn; nil: it is none of the kernel's
	up    *uplink
	until time.Time // write deadline
	pace  sendPace

	mu     sync.Mutex // guards queue and err
	queue  [classes][]*packet
	err    error
	filled chan struct{} // holds a token while there may be something to send
}

func newWriter(c net.Conn, up *uplink) *writer {
	w := &writer{conn: c, raw: rawOf(c), up: up, filled: make(chan struct{}, 1)}
	w.pace.frame.Store(pieceSize)
	return w
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
	if !w.drop(p) { // it, or a frame of it, is being sent
		return errors.Join(ctx.Err(), <-p.done)
	}
	return ctx.Err()
}

// drop takes p out of the queue, if it is there and nothing of it is being sent.
func (w *writer) drop(p *packet) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.busy {
		p.unwanted = true
		return false
	}
	there := w.remove(p)
	p.dropped = there && p.file == nil
	return there
}

// remove is called with mu held.
func (w *writer) remove(p *packet) bool {
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
		began := time.Now()
		err := w.write(ctx, b)
		if w.raw != nil && w.pace.learn(b.data, time.Since(began)) { // else nothing bounds what lies before an urgent frame
			w.keepPace()
		}
		for _, p := range b.packets {
			w.written(p, err)
		}
		if err != nil {
			return err
		}
	}
}

// written is told that p was sent, or a frame of its file.
func (w *writer) written(p *packet, err error) {
	if p.file != nil {
		w.mu.Lock()
		p.busy = false
		p.offset += int64(p.size)
		p.left -= int(p.size)
		over := err != nil || p.left == 0 || p.unwanted
		if over {
			w.remove(p)
		}
		w.mu.Unlock()
		if !over {
			return
		}
	}
	if p.done != nil {
		p.done <- err
	}
}

// bundle is what goes out in one write. A packet with a file is the last.
type bundle struct {
	packets []*packet
	data    int // bytes of payload that are not control
	heads   []byte
	bufs    net.Buffers
}

// next takes the most urgent packets. One with a file stays in the queue.
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
			if p.file != nil {
				p.size = uint32(min(p.left, w.frame()))
			}
			if len(b.packets) >= 64 || class(c) != control && b.data > 0 && b.data+int(p.size) > batch {
				break
			}
			b.packets = append(b.packets, p)
			if class(c) != control {
				b.data += int(p.size)
			}
			if p.file != nil {
				p.busy = true
				w.queue[c] = slices.Delete(w.queue[c], 0, n)
				return nil
			}
			n++
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
		b.heads = append(b.heads, p.before...)
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
	if now := time.Now(); w.until.Sub(now) < writeTimeout-time.Second { // a timer costs more than the time of day
		w.until = now.Add(writeTimeout)
		if err := w.conn.SetWriteDeadline(w.until); err != nil {
			return err
		}
	}
	if file != nil && w.raw != nil {
		if err := sendMore(w.raw, b.bufs); err != nil {
			return err
		}
	} else {
		bufs := b.bufs // WriteTo uses its receiver up
		if _, err := bufs.WriteTo(w.conn); err != nil {
			return err
		}
	}
	w.up.sent(fromMemory, memory)
	if file == nil {
		return nil
	}
	return w.up.sendFile(w.conn, w.raw, file.file, file.offset, int(file.size))
}
