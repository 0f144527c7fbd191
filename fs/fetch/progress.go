package fetch

import (
	"sync"
	"time"
)

// progress is how far the attempts of one flight are, for those who tap it. The
// zero value is ready.
type progress struct {
	mu       sync.Mutex // no other lock is taken under it
	arrivals []*arrival // of attempts under way
	taps     []chan struct{}
	begun    bool // something has arrived
}

// arrival is what has come in one attempt.
type arrival struct {
	buf *buffer
	mem []byte // of buf, as long as the block

	// Guarded by progress.mu.
	n    int       // bytes of mem that are there and will not change
	sign time.Time // of life, the last; zero: none was due
	then time.Time // when pace was looked at
	had  int       // n then
}

// add begins an attempt that brings its block into buf, which stays the
// caller's. speaks says that its source can give signs of life.
func (p *progress) add(buf *buffer, size int, speaks bool) *arrival {
	a := &arrival{buf: buf, mem: buf.bytes[:size]}
	if speaks {
		a.sign = time.Now().Add(firstSign - silentAfter)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, a)
	return a
}

// grow says that the first n bytes of a are there, or only that its source
// lives. It reports whether they are the first of the flight.
func (p *progress) grow(a *arrival, n int) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.sign = time.Now()
	if n <= a.n {
		return false
	}
	a.n = n
	first = !p.begun
	p.begun = true
	p.wake()
	return first
}

// remove ends an attempt. Taps that read from it may keep its buffer.
func (p *progress) remove(a *arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.arrivals {
		if o == a {
			p.arrivals = append(p.arrivals[:i], p.arrivals[i+1:]...)
			break
		}
	}
	p.wake()
}

// wake wakes the taps. The caller holds mu.
func (p *progress) wake() {
	for _, c := range p.taps {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// watch returns a channel that holds a token whenever there may be news.
func (p *progress) watch() chan struct{} {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taps = append(p.taps, c)
	return c
}

func (p *progress) unwatch(c chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.taps {
		if o == c {
			p.taps = append(p.taps[:i], p.taps[i+1:]...)
			return
		}
	}
}

// A source that can give signs of life is silent when it gave none for so long:
// the first one, and any other. It says five times as often that it waits.
const (
	firstSign   = 250 * time.Millisecond
	silentAfter = 500 * time.Millisecond
)

// goodPace is how much longer a block may take that is arriving. Where links are
// full all blocks take their time, and to ask somebody else makes it worse.
const goodPace = time.Second

// paceOver is the shortest time over which pace is measured: what waits its turn
// behind other blocks comes in bursts.
const paceOver = 250 * time.Millisecond

// look says what an attempt is like: its source gives no sign of life, or gives
// the block too slowly; and when to look again.
func (p *progress) look(a *arrival) (silent, slow bool, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	left := a.sign.Add(silentAfter).Sub(now)
	return a.sign.IsZero() || left <= 0, a.slow(now), min(left, paceOver)
}

// slow reports whether the block will take long at the pace it has now. The
// caller holds progress.mu.
func (a *arrival) slow(now time.Time) bool {
	since, came, first := now.Sub(a.then), a.n-a.had, a.then.IsZero()
	if first || since >= paceOver {
		a.then, a.had = now, a.n
	}
	if first || since < paceOver || came == 0 { // its sign is that of a source which waits itself
		return false
	}
	return since*time.Duration(len(a.mem)-a.n)/time.Duration(came) > goodPace
}
