package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// stream is a blob of an endpoint that ignores Range. The whole blob is read
// once, into a file; blocks are served as they pass, and afterwards for as long
// as the spool keeps the file. What is kept serves again, so here sums are
// checked: bad bytes go, with the whole file.
type stream struct {
	r    *repository
	size int64 // of the blob

	mu      sync.Mutex    // guards all below; held while the file is read
	file    *os.File      // nil when gone; unlinked
	have    int64         // bytes of the blob in file
	running bool          // somebody reads, or asks for, the rest
	err     error         // of the last run
	step    chan struct{} // closed and replaced when any of this changes
	seen    time.Time     // when a reader last was here
	cancel  func()        // ends the run
}

func (s *stream) changed() {
	close(s.step)
	s.step = make(chan struct{})
}

// read serves a block from the file, waiting for it to pass. Where no more
// passes it fails, or, if claim is set and it did not have to wait, returns
// mine: the caller asks for the blob and calls run, or fail.
func (s *stream) read(ctx context.Context, ref block.Ref, p []byte, claim bool) (mine bool, err error) {
	for ; ; claim = false {
		s.mu.Lock()
		s.seen = time.Now()
		switch {
		case s.file == nil:
			s.mu.Unlock()
			return false, errGone
		case s.have >= ref.Offset+int64(len(p)):
			err := s.serve(ref, p)
			s.mu.Unlock()
			if err != nil {
				s.r.c.spool.drop(s)
			}
			return false, err
		case !s.running && claim:
			s.running = true
			s.mu.Unlock()
			return true, nil
		case !s.running:
			defer s.mu.Unlock()
			return false, cmp.Or(s.err, errGone)
		}
		step := s.step
		s.mu.Unlock()
		select {
		case <-step:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// serve reads and checks a block that has passed. s.mu is held.
func (s *stream) serve(ref block.Ref, p []byte) error {
	_, err := s.file.ReadAt(p, ref.Offset)
	if err == nil {
		err = ref.Verify(p)
	}
	if err != nil {
		return fmt.Errorf("spooled blob: %w: %w", err, errGone)
	}
	return nil
}

// errGone is for a reader who comes when the file has just been dropped.
var errGone = fmt.Errorf("spooled blob is gone: %w", errdefs.ErrUnavailable)

// run takes over an answer with the whole blob. The caller has got mine from
// read.
func (s *stream) run(q *request, body io.ReadCloser) {
	s.mu.Lock()
	s.cancel = func() { q.cancel(errGone) }
	s.mu.Unlock()
	ok := q.keep() && s.r.c.start(func() {
		defer q.cancel(nil)
		defer body.Close()
		defer context.AfterFunc(s.r.c.ctx, func() { q.cancel(errClosed) })()
		s.fail(s.copy(q, body))
	})
	if !ok {
		q.kept = false
		s.fail(fmt.Errorf("stream not started: %w", errdefs.ErrUnavailable))
	}
}

// fail ends a run, or a claim that did not come to one; nil is the end of the
// blob.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.err, s.cancel = false, err, nil
	s.changed()
}

// copy reads the blob, skips what the file has of it, and appends the rest.
func (s *stream) copy(q *request, body io.Reader) error {
	limit := s.r.c.opts.Idle
	idle := time.AfterFunc(limit, func() { q.cancel(errIdle) })
	defer idle.Stop()
	buf := make([]byte, 256<<10)
	for at := int64(0); at < s.size; {
		n, err := body.Read(buf[:min(int64(len(buf)), s.size-at)])
		s.r.c.metrics.bytes.Add(float64(n))
		idle.Reset(limit)
		if werr := s.append(buf[:n], at); werr != nil {
			return werr
		}
		at += int64(n)
		switch {
		case at == s.size:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("body ended after %d of %d bytes: %w", at, s.size, errdefs.ErrUnavailable)
		case err != nil:
			return transportError(q.ctx, err)
		}
	}
	return nil
}

// append adds p, which is at off of the blob, as far as it is new. It refuses
// when no reader has come for a while.
func (s *stream) append(p []byte, off int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return errGone
	}
	if time.Since(s.seen) > s.r.c.opts.Idle {
		return fmt.Errorf("nobody reads: %w", errdefs.ErrUnavailable)
	}
	if end := off + int64(len(p)); end > s.have {
		p = p[s.have-off:]
		if _, err := s.file.WriteAt(p, s.have); err != nil {
			return fmt.Errorf("spool: %w: %w", err, errdefs.ErrUnavailable)
		}
		s.have = end
		s.changed()
	}
	return nil
}
