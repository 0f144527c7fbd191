package fetch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue is the layers that want the background's attention, each at most once,
// so that it never holds more than there are open layers.
type queue struct {
	mu     sync.Mutex // guards layers
	layers []queued
	grown  chan struct{} // holds one token while there may be something new
}

type queued struct {
	layer     *Layer
	notBefore time.Time
}

func (q *queue) init() { q.grown = make(chan struct{}, 1) }

// push adds l, or makes it due now. It never waits.
func (q *queue) push(l *Layer) { q.pushAt(l, time.Time{}) }

func (q *queue) pushAt(l *Layer, notBefore time.Time) {
	q.mu.Lock()
	i := slices.IndexFunc(q.layers, func(o queued) bool { return o.layer == l })
	if i < 0 {
		q.layers = append(q.layers, queued{l, notBefore})
	} else if notBefore.Before(q.layers[i].notBefore) {
		q.layers[i].notBefore = notBefore
	}
	q.mu.Unlock()
	select {
	case q.grown <- struct{}{}:
	default:
	}
}

// pop waits for the first layer that is due, nil when ctx ends.
func (q *queue) pop(ctx context.Context) *Layer {
	for {
		l, wait := q.due(time.Now())
		if l != nil {
			return l
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case <-later:
		case <-q.grown:
		case <-ctx.Done():
			return nil
		}
	}
}

// due takes the first layer that is due, or says how long the next one will
// take; 0 means that there is none.
func (q *queue) due(now time.Time) (*Layer, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var next time.Duration
	for i, o := range q.layers {
		wait := o.notBefore.Sub(now)
		if wait <= 0 {
			q.layers = slices.Delete(q.layers, i, i+1)
			return o.layer, 0
		}
		if next == 0 || wait < next {
			next = wait
		}
	}
	return nil, next
}

// drop takes l out.
func (q *queue) drop(l *Layer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.layers = slices.DeleteFunc(q.layers, func(o queued) bool { return o.layer == l })
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.layers)
}
