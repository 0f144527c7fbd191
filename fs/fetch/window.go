package fetch

import "time"

// window is how many blocks a rush has under way. A link is full when what is
// under way takes longer to come than a round trip, and more than that only
// delays what is read meanwhile. So there are more while a block takes hardly
// longer than the quickest one did, and fewer where it takes much longer.
type window struct {
	size, most int
	best, last time.Duration // that a block took; best is not shorter than a round trip
}

// leastWindow blocks always are under way, so that one comes while the next is
// asked for.
const leastWindow = 2

// newWindow begins with one block: what it takes alone is what is compared with.
func newWindow(most int) window { return window{size: 1, most: most} }

// took notes how long a block took.
func (w *window) took(d time.Duration) {
	w.last = d
	if w.best == 0 || d < w.best {
		w.best = d
	}
	switch {
	case d < w.best*3/2 || w.size < leastWindow:
		w.size = min(w.size+1, w.most)
	case d > w.best*5/2:
		w.size = max(w.size-1, min(leastWindow, w.most))
	}
}

// pace is the time between two requests. Blocks that are asked for together and
// share a link come together, and then nothing is on it for a round trip.
func (w *window) pace() time.Duration { return w.last / time.Duration(2*w.size) }
