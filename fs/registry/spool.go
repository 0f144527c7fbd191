package registry

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// keepSpooled is how long a whole blob that nobody reads is kept.
const keepSpooled = 5 * time.Minute

// spool bounds the bytes of all streams of a Client. Lock order: spool.mu, then
// stream.mu.
type spool struct {
	dir   string
	limit int64

	mu    sync.Mutex // guards all below
	bytes int64      // reserved: the size of each blob in all
	all   []*stream
	timer *time.Timer
}

func newSpool(dir string, limit int64) *spool { return &spool{dir: dir, limit: limit} }

// add makes a stream for a blob. The oldest that are not running go when there
// is no room; nil when that does not help, or the size is not known (-1).
func (l *spool) add(r *repository, size int64) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size < 0 || size > l.limit {
		return nil
	}
	for l.bytes+size > l.limit {
		i := slices.IndexFunc(l.all, func(s *stream) bool { return !s.busy() })
		if i < 0 {
			return nil
		}
		l.remove(l.all[i])
	}
	f, err := os.CreateTemp(l.dir, "faasnet-spool-*")
	if err != nil {
		return nil
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil
	}
	s := &stream{r: r, size: size, file: f, step: make(chan struct{}), seen: time.Now()}
	l.bytes += size
	l.all = append(l.all, s)
	if l.timer == nil {
		l.timer = time.AfterFunc(keepSpooled, l.expire)
	}
	return s
}

// drop ends a stream and gives its room back.
func (l *spool) drop(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(s)
}

// remove is drop. l.mu is held.
func (l *spool) remove(s *stream) {
	i := slices.Index(l.all, s)
	if i < 0 {
		return
	}
	l.all = slices.Delete(l.all, i, i+1)
	l.bytes -= s.size
	s.close()
}

// expire drops what nobody has read for a while, and comes again while
// anything is left.
func (l *spool) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Clone(l.all) {
		if s.unused() {
			l.remove(s)
		}
	}
	if l.timer != nil {
		l.timer = nil
		if len(l.all) > 0 {
			l.timer = time.AfterFunc(keepSpooled, l.expire)
		}
	}
}

func (l *spool) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Clone(l.all) {
		l.remove(s)
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

func (s *stream) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *stream) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.running && time.Since(s.seen) >= keepSpooled
}

// close gives up the file; a run ends by it.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	err := s.file.Close()
	s.file, s.err = nil, errors.Join(errGone, err)
	if s.cancel != nil {
		s.cancel()
	}
	s.changed()
}
