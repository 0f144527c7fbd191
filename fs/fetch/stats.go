package fetch

import (
	"sync/atomic"
	"time"
)

// counters of one layer.
type counters struct {
	hits, waits, failures, fromMemory, decoded, ahead atomic.Int64
	blocksFetched, bytesFetched, waited               atomic.Int64
}

func (c *counters) fetched(n int) {
	c.blocksFetched.Add(1)
	c.bytesFetched.Add(int64(n))
}

// wait begins a view that waits; the returned function ends it.
func (c *counters) wait() func(error) {
	began := time.Now()
	return func(err error) {
		c.waits.Add(1)
		c.waited.Add(int64(time.Since(began)))
		if err != nil {
			c.failures.Add(1)
		}
	}
}

// Stats says what happened to one layer since it was opened.
type Stats struct {
	Blocks        int           // of the layer
	Present       int           // decoded on local disk now
	Sealed        bool          // whole on stable storage
	Hits          int64         // views answered at once
	Waits         int64         // views that waited for a block
	Waited        time.Duration // by all of them together
	Failures      int64         // of them, views that failed
	FromMemory    int64         // views answered from memory since the disk took no more
	Decoded       int64         // blocks decoded
	BlocksFetched int64         // blocks that were not in the store
	BytesFetched  int64         // compressed bytes of them
	BlocksAhead   int64         // blocks asked for by read-ahead
}

// Stats returns the counters of the layer.
func (l *Layer) Stats() Stats {
	c := &l.stats
	s := Stats{
		Blocks: l.table.Len(), Hits: c.hits.Load(), Waits: c.waits.Load(), Waited: time.Duration(c.waited.Load()),
		Failures: c.failures.Load(), FromMemory: c.fromMemory.Load(), Decoded: c.decoded.Load(),
		BlocksFetched: c.blocksFetched.Load(), BytesFetched: c.bytesFetched.Load(), BlocksAhead: c.ahead.Load(),
	}
	if flat, err := l.file(); err == nil {
		s.Present, _ = flat.Present()
		s.Sealed = flat.Sealed()
	}
	return s
}
