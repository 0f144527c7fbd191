package main

import (
	"bytes"
	"io"
	"sync"
)

// finder looks for a text in what a container prints, on any of its streams.
type finder struct {
	text []byte
	once sync.Once
	done chan struct{} // closed when text was found
}

func newFinder(text string) *finder {
	return &finder{text: []byte(text), done: make(chan struct{})}
}

// stream returns a writer for one stream.
func (f *finder) stream() io.Writer {
	if len(f.text) == 0 {
		return io.Discard
	}
	return &searched{finder: f}
}

func (f *finder) isDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// searched is one stream, with so much of its end that text may lie across two
// writes.
type searched struct {
	*finder
	tail []byte
}

func (s *searched) Write(p []byte) (int, error) {
	s.tail = append(s.tail, p...)
	if bytes.Contains(s.tail, s.text) {
		s.once.Do(func() { close(s.done) })
	}
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-len(s.text)+1):]...)
	return len(p), nil
}

// shown is a writer that several streams of a container share. What cannot be
// shown is lost: an error would close the container's pipe.
type shown struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.w.Write(p)
	return len(p), nil
}
