package peer

import (
	"strings"
	"testing"
	"time"
)

// An upstream that has nothing to send is asked first at any time; one that does
// not answer is not, some time before it is given up.
func TestIdleUpstreamIsNotQuiet(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		a, b, c := w.start("a", 0), w.start("b", 0), w.start("c", 0)
		w.chain(a, b, c)
		first := func() string { return c.relay.Sources(w.layer.Ref(0))[0].(*source).n.vm }
		for range 100 {
			if vm := first(); vm != "b" {
				t.Fatalf("%s is asked first", vm)
			}
			time.Sleep(37 * time.Millisecond)
		}
		b.host.Freeze(true)
		defer b.host.Freeze(false)
		frozen := time.Now()
		for first() == "b" {
			time.Sleep(time.Millisecond)
			if time.Since(frozen) > 2*DefaultSilence {
				t.Fatal("b is asked first although it is stopped")
			}
		}
		if len(b.reported(Silent))+len(c.reported(Silent)) > 0 {
			t.Error("b was given up before others were asked first")
		}
	})
}

// A wall clock that is set, as after a VM's sleep, is no silence: what is compared has
// the monotonic clock, which time.Time shows as m=.
func TestSilenceIsMonotonic(t *testing.T) {
	r, _ := fuzzRelay(t, &fake{})
	c := newConn(r, script{}, "you", false)
	c.hear(time.Now())
	if s := c.lastHeard().String(); !strings.Contains(s, "m=") {
		t.Errorf("last heard at %s", s)
	}
}
