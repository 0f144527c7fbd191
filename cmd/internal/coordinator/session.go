package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/time/rate"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// session is one live stream of one VM.
type session struct {
	member
	address string
	end     context.CancelCauseFunc // ends the stream
	peer    *treepb.Peer            // as others know it; never changed
	wake    chan struct{}           // has room for one: there is news

	// Guarded by Coordinator.mu.
	seats map[string]*seat // by function
	// news is what the VM must still be told, of each function only the newest,
	// and of maxNews functions at most, so that a VM that does not read costs a
	// bounded amount of memory. Nil stands for its place as it is when the message
	// is made.
	news    map[string]*treepb.ToVM
	heard   time.Time // last message of any kind
	busy    time.Time // last time that it joined, read or relayed
	load    *treepb.Heartbeat
	credit  *rate.Limiter // of reports about others
	reports blame         // of others about it
}

func newSession(m member, address string, end context.CancelCauseFunc, now time.Time) *session {
	return &session{
		member: m, address: address, end: end,
		peer:  &treepb.Peer{Vm: string(m.vm), Address: address},
		wake:  make(chan struct{}, 1),
		seats: map[string]*seat{}, news: map[string]*treepb.ToVM{},
		heard: now, busy: now,
		load:   &treepb.Heartbeat{},
		credit: rate.NewLimiter(rate.Every(creditEvery), credit),
	}
}

// maxNews bounds the functions of which a VM has not been told; beyond that it does
// not read, or asks for what nobody has.
const maxNews = 1024

var errDeaf = fmt.Errorf("the VM asks much and does not listen: %w", errdefs.ErrResourceExhausted)

// post replaces what was to be said of the function.
func (s *session) post(function string, m *treepb.ToVM) {
	if s.say(function, m) {
		s.stir()
	}
}

// say notes what is to be said of the function. false: a VM that has left so much
// unread is told nothing more.
func (s *session) say(function string, m *treepb.ToVM) bool {
	if _, replaced := s.news[function]; !replaced && len(s.news) >= maxNews {
		s.end(errDeaf)
		return false
	}
	s.news[function] = m
	return true
}

// later has the VM hear of its place when it is stirred, and reports whether it
// would not hear of it anyway. Whoever calls it stirs.
func (s *session) later(function string) bool {
	if _, hears := s.news[function]; hears {
		return false
	}
	return s.say(function, nil)
}

// stir has the VM hear what there is to say.
func (s *session) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) refuse(function, reason string, again treepb.Refusal_Again) {
	s.post(function, &treepb.ToVM{Message: &treepb.ToVM_Refusal{
		Refusal: &treepb.Refusal{Function: function, Reason: reason, Again: again},
	}})
}

func (s *session) redirect(function, address string) {
	s.post(function, &treepb.ToVM{Message: &treepb.ToVM_Redirect{
		Redirect: &treepb.Redirect{Function: function, Address: address},
	}})
}

// seat is one VM in one function.
type seat struct {
	session *session
	grove   *grove
	blocks  uint64 // held when it joined
	joined  time.Time

	upstreams []tree.VM // of its last place, while it waits for the others to come back
	suspended time.Time // when it was taken out because of a report
	until     time.Time // not placed again before

	stamp    uint64 // of the last change that was told, see grove.tellBelow
	answered bool   // its place has been told
	inserted bool   // by the scheduler, and the VM has not asked so far
}

// placed reports whether it has a place in the tree.
func (at *seat) placed() bool { return at.grove.tree.Has(at.session.vm) }
