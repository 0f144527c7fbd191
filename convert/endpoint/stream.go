package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A stream that breaks is opened again where it broke, at once and as often as
// it makes progress; this often in a row where it makes none, with pauses.
const (
	maxReopen  = 5
	reopenWait = 250 * time.Millisecond // doubled each time
)

// stream is a blob of a registry as a content.ReaderAt: one request for all of
// it as long as it is read front to back.
type stream struct {
	ctx     context.Context //nolint:containedctx // of ReaderAt, whose result this is
	fetcher remotes.Fetcher
	desc    ocispec.Descriptor

	mu  sync.Mutex // guards what follows; held while reading
	rc  io.ReadCloser
	off int64
}

// Size returns the length that the descriptor states.
func (s *stream) Size() int64 { return s.desc.Size }

// ReadAt reads, and opens the blob on the first call.
func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, fails := 0, 0
	for n < len(p) {
		if off+int64(n) >= s.desc.Size {
			return n, io.EOF
		}
		m, err := s.read(p[n:], off+int64(n))
		n += m
		if m > 0 {
			fails = 0
		}
		if err == nil {
			continue
		}
		_ = s.close()
		if errors.Is(err, io.EOF) { // short of desc.Size
			err = io.ErrUnexpectedEOF
		}
		if fails++; fails > maxReopen || !temporary(err) {
			return n, fmt.Errorf("blob %s at %d: %w", s.desc.Digest, off+int64(n), err)
		}
		if fails == 1 {
			continue
		}
		select {
		case <-s.ctx.Done():
			return n, s.ctx.Err()
		case <-time.After(reopenWait << (fails - 2)):
		}
	}
	return n, nil
}

// read reads once at off.
func (s *stream) read(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.rc == nil {
		rc, err := s.fetcher.Fetch(s.ctx, s.desc)
		if err != nil {
			return 0, err
		}
		s.rc, s.off = rc, 0
	}
	if s.off != off {
		seeker, ok := s.rc.(io.Seeker)
		if !ok {
			return 0, fmt.Errorf("read at %d: %w", off, errdefs.ErrNotImplemented)
		}
		if _, err := seeker.Seek(off, io.SeekStart); err != nil {
			return 0, err
		}
		s.off = off
	}
	n, err := s.rc.Read(p[:min(int64(len(p)), s.desc.Size-off)])
	s.off += int64(n)
	if err == io.EOF && s.off == s.desc.Size {
		err = nil
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

func (s *stream) close() error {
	if s.rc == nil {
		return nil
	}
	err := s.rc.Close()
	s.rc = nil
	return err
}

// temporary says whether asking again may help: not when the registry has
// answered clearly.
func temporary(err error) bool {
	for _, is := range []func(error) bool{
		errdefs.IsNotFound, errdefs.IsInvalidArgument, errdefs.IsUnauthorized, errdefs.IsPermissionDenied,
		errdefs.IsFailedPrecondition, errdefs.IsNotImplemented,
	} {
		if is(err) {
			return false
		}
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
