package peer

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reportsOf notes when each fault of others is reported.
type reportsOf struct {
	mu sync.Mutex
	at map[Fault][]time.Time
}

func (r *reportsOf) note(o *Options) {
	r.at = map[Fault][]time.Time{}
	o.Report = func(rep Report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at[rep.Fault] = append(r.at[rep.Fault], time.Now())
	}
}

func (r *reportsOf) of(f Fault) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[f]
}

// A VM that owes us a block is reported after two fifths of the time after which it is
// given up, once, and again as silent after all of it; anew when it was heard in
// between.
func TestQuietIsReportedOnceAnEpisode(t *testing.T) {
	inWorld(t, 64, func(w *world) {
		t := w.t
		var seen reportsOf
		a, b := w.start("a", 8*mbit), w.start("b", 8*mbit, seen.note)
		w.chain(a, b)
		var reading sync.WaitGroup
		reading.Go(func() { b.mustReadAll() })
		defer reading.Wait()
		time.Sleep(time.Second)
		if n := len(seen.of(Quiet)); n != 0 {
			t.Fatalf("quiet %d times while it sends", n)
		}
		for episode := 1; episode <= 2; episode++ {
			a.host.Freeze(true)
			stopped := time.Now()
			time.Sleep(700 * time.Millisecond)
			a.host.Freeze(false)
			time.Sleep(300 * time.Millisecond)
			at := seen.of(Quiet)
			if len(at) != episode {
				t.Fatalf("quiet %d times in %d episodes", len(at), episode)
			}
			if d := at[episode-1].Sub(stopped); d < DefaultSilence/4 || d > DefaultSilence/2 {
				t.Errorf("episode %d is reported after %v", episode, d)
			}
		}
		if n := len(seen.of(Silent)); n != 0 {
			t.Errorf("silent %d times", n)
		}
	})
}

// Who stays quiet is silent in the end, too.
func TestQuietBecomesSilent(t *testing.T) {
	inWorld(t, 64, func(w *world) {
		t := w.t
		var seen reportsOf
		a, b := w.start("a", 8*mbit), w.start("b", 8*mbit, seen.note)
		w.chain(a, b)
		var reading sync.WaitGroup
		reading.Go(func() { b.mustReadAll() })
		defer reading.Wait()
		time.Sleep(time.Second)
		a.host.Freeze(true)
		defer a.host.Freeze(false)
		time.Sleep(DefaultSilence * 3 / 2)
		if q, s := len(seen.of(Quiet)), len(seen.of(Silent)); q != 1 || s != 1 {
			t.Errorf("quiet %d times, silent %d times", q, s)
		}
	})
}

// Nobody is quiet who owes nothing, or who is asked and waits himself.
func TestWhoWaitsIsNotQuiet(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		t := w.t
		var seen reportsOf
		a, b, c := w.start("a", 0), w.start("b", 0), w.start("c", 0, seen.note)
		w.chain(a, b, c)
		c.mustRead(0)
		a.host.Freeze(true)
		defer a.host.Freeze(false)
		time.Sleep(DefaultSilence * 3) // nothing is asked
		var reading sync.WaitGroup
		reading.Go(func() { c.mustRead(1) })
		time.Sleep(DefaultSilence)
		synctest.Wait()
		reading.Wait()
		if at := seen.of(Quiet); len(at) != 0 {
			t.Errorf("b is quiet: %v", at)
		}
	})
}

// What is concluded from silence began when we began to wait, not when something was
// heard last: an idle connection says nothing.
func TestSilenceBeginsWithTheWait(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		t := w.t
		var mu sync.Mutex
		var since []time.Time
		a, b := w.start("a", 0), w.start("b", 0, func(o *Options) {
			o.Report = func(r Report) {
				mu.Lock()
				defer mu.Unlock()
				since = append(since, r.Since)
			}
		})
		w.chain(a, b)
		b.mustRead(0)
		b.place(Place{}) // nobody follows: nothing is awaited
		time.Sleep(10 * DefaultSilence)
		a.host.Freeze(true)
		defer a.host.Freeze(false)
		began := time.Now()
		b.below(100, []*vm{a})
		time.Sleep(2 * DefaultSilence)
		mu.Lock()
		defer mu.Unlock()
		if len(since) == 0 || since[0].Before(began) {
			t.Errorf("reported since %v, asked at %v", since, began)
		}
	})
}
