package registrytest

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Fault is what is wrong with one answer. The zero value is nothing.
type Fault struct {
	Delay  time.Duration // before the headers
	Status int           // answered with an empty JSON error instead of the content
	Header http.Header   // set on the answer, over the right ones
	Hang   bool          // accept, read the request, never answer
	Close  bool          // close the connection without a reply
	Reset  bool          // as Close, with a TCP reset where there is TCP

	IgnoreRange  bool   // 200 with the whole blob
	ContentRange string // instead of the right one
	Shift        int64  // the range that is sent begins so much later, and says so
	Chunked      bool   // no Content-Length

	Extra    int64 // bytes of the blob sent after those asked for; goes with Chunked
	Rate     int   // bytes of body a second
	Truncate int64 // close after so many bytes of body
	Stall    int64 // send nothing more after so many bytes of body
	Flip     int64 // invert this byte of the blob; counted from 1
}

type rule struct {
	match func(*http.Request) bool
	next  []Fault // used up one by one
	every *Fault  // or always this
}

// Every spoils every request that match accepts, until undo is called. The
// rule added first wins.
func (r *Registry) Every(match func(*http.Request) bool, f Fault) (undo func()) {
	return r.addRule(&rule{match: match, every: &f})
}

// Next spoils the next requests that match accepts, each by one of faults.
func (r *Registry) Next(match func(*http.Request) bool, faults ...Fault) (undo func()) {
	return r.addRule(&rule{match: match, next: faults})
}

func (r *Registry) addRule(u *rule) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, u)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rules = slices.DeleteFunc(r.rules, func(v *rule) bool { return v == u })
	}
}

func (r *Registry) fault(req *http.Request) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.rules {
		switch {
		case !u.match(req):
		case u.every != nil:
			return *u.every
		case len(u.next) > 0:
			f := u.next[0]
			u.next = u.next[1:]
			return f
		}
	}
	return Fault{}
}

// before does what a fault does before an answer. False: there is none to give.
func (r *Registry) before(w http.ResponseWriter, req *http.Request, f Fault) bool {
	if f.Delay > 0 && !r.pause(req.Context(), f.Delay) {
		return false
	}
	switch {
	case f.Hang:
		r.hang(req)
	case f.Reset:
		reset(w)
	case f.Close:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		maps.Copy(w.Header(), f.Header)
		fail(w, f.Status, "SCRIPTED", "scripted answer")
		return false
	}
	return true
}

func (r *Registry) hang(req *http.Request) {
	select {
	case <-req.Context().Done():
	case <-r.done:
	}
	panic(http.ErrAbortHandler)
}

func reset(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if t, ok := c.(interface{ SetLinger(int) error }); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}

// send writes n bytes of src from off, as f says.
func (r *Registry) send(w http.ResponseWriter, req *http.Request, status int, src io.ReaderAt, off, n int64, f Fault) {
	maps.Copy(w.Header(), f.Header)
	if !f.Chunked {
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	}
	w.WriteHeader(status)
	if req.Method == http.MethodHead {
		return
	}
	if f.Chunked {
		_ = http.NewResponseController(w).Flush()
	}
	n += f.Extra
	end := n
	for _, stop := range []int64{f.Truncate, f.Stall} {
		if stop > 0 {
			end = min(end, stop)
		}
	}
	if !r.write(w, req, src, off, end, f) {
		panic(http.ErrAbortHandler)
	}
	if f.Stall > 0 {
		_ = http.NewResponseController(w).Flush()
		r.hang(req)
	}
	if end < n {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// slice is how often a slow body sends something.
const slice = 100 * time.Millisecond

func (r *Registry) write(w http.ResponseWriter, req *http.Request, src io.ReaderAt, off, n int64, f Fault) bool {
	buf := make([]byte, 64<<10)
	if f.Rate > 0 {
		buf = buf[:min(len(buf), max(1, f.Rate/int(time.Second/slice)))]
	}
	for n > 0 {
		p := buf[:min(int64(len(buf)), n)]
		if _, err := src.ReadAt(p, off); err != nil && err != io.EOF {
			return false
		}
		if i := f.Flip - 1 - off; f.Flip > 0 && i >= 0 && i < int64(len(p)) {
			p[i] ^= 0xff
		}
		if f.Rate > 0 && !r.pause(req.Context(), time.Second*time.Duration(len(p))/time.Duration(f.Rate)) {
			return false
		}
		if _, err := w.Write(p); err != nil {
			return false
		}
		if f.Rate > 0 {
			_ = http.NewResponseController(w).Flush()
		}
		off += int64(len(p))
		n -= int64(len(p))
	}
	return true
}
