package treetest

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Test holds a coordinator to the protocol. open returns a connection to a new
// one that asks for no credentials and whose trees have VMs in the order of
// their joins below each other, as all forms have the first three.
func Test(t *testing.T, open func(t *testing.T) *grpc.ClientConn) {
	t.Run("the first message is a hello", func(t *testing.T) {
		s := attend(t, open(t))
		s.send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: "f"}}})
		if m, err := s.Recv(); err == nil {
			t.Errorf("got %v", m)
		}
	})
	t.Run("welcome", func(t *testing.T) {
		w := attend(t, open(t)).hello("a", "10.0.0.1:1")
		if w.Heartbeat.AsDuration() <= 0 || len(w.TokenKey) != 32 || w.MaxFunctions == 0 || w.Tenant == "" {
			t.Errorf("welcome %v", w)
		}
	})
	t.Run("join and leave", func(t *testing.T) {
		conn := open(t)
		a, b := attend(t, conn), attend(t, conn)
		key := a.hello("a", "10.0.0.1:1").TokenKey
		b.hello("b", "10.0.0.2:1")
		a.join("f")
		first := a.assigned(func(p *treepb.Assignment) bool { return p.Function == "f" })
		for _, s := range first.Stripes {
			if s.Upstream != nil || len(s.Ancestors)+len(s.Downstream) != 0 {
				t.Errorf("alone: %v", first)
			}
		}
		claims, err := identity.Verifier{Keys: []ed25519.PublicKey{key}}.Verify(first.Token, identity.Read)
		if err != nil || claims.VM != "a" || claims.Function != "f" || !claims.Expires.Equal(first.TokenExpires.AsTime()) {
			t.Errorf("token: %+v, %v", claims, err)
		}
		b.join("f")
		second := b.assigned(func(p *treepb.Assignment) bool { return true })
		if up := second.Stripes[0].Upstream; !proto.Equal(up, &treepb.Peer{Vm: "a", Address: "10.0.0.1:1"}) {
			t.Errorf("the second reads from %v", up)
		}
		told := a.assigned(func(p *treepb.Assignment) bool { return len(p.Stripes[0].Downstream) == 1 })
		if told.Stripes[0].Downstream[0].Vm != "b" || told.Epoch <= first.Epoch {
			t.Errorf("the first serves %v", told)
		}
		a.send(&treepb.FromVM{Message: &treepb.FromVM_Leave{Leave: &treepb.Leave{Function: "f"}}})
		alone := b.assigned(func(p *treepb.Assignment) bool { return p.Stripes[0].Upstream == nil })
		if alone.Epoch <= second.Epoch {
			t.Errorf("epoch %d after %d", alone.Epoch, second.Epoch)
		}
	})
	t.Run("the end of the stream is the end of the place", func(t *testing.T) {
		conn := open(t)
		a, b := attend(t, conn), attend(t, conn)
		a.hello("a", "10.0.0.1:1")
		b.hello("b", "10.0.0.2:1")
		a.join("f")
		a.assigned(func(*treepb.Assignment) bool { return true })
		b.join("f")
		b.assigned(func(p *treepb.Assignment) bool { return p.Stripes[0].Upstream != nil })
		a.cancel()
		b.assigned(func(p *treepb.Assignment) bool { return p.Stripes[0].Upstream == nil })
	})
	t.Run("functions are apart", func(t *testing.T) {
		conn := open(t)
		a, b := attend(t, conn), attend(t, conn)
		a.hello("a", "10.0.0.1:1")
		b.hello("b", "10.0.0.2:1")
		a.join("f")
		a.assigned(func(*treepb.Assignment) bool { return true })
		b.join("g")
		if p := b.assigned(func(p *treepb.Assignment) bool { return p.Function == "g" }); p.Stripes[0].Upstream != nil {
			t.Errorf("the first of g reads from %v", p.Stripes[0].Upstream)
		}
	})
}

// vm is one VM of the suite.
type vm struct {
	t *testing.T
	treepb.Membership_AttendClient
	cancel context.CancelFunc
	mu     sync.Mutex // of Send
}

func attend(t *testing.T, conn *grpc.ClientConn) *vm {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	s, err := treepb.NewMembershipClient(conn).Attend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &vm{t: t, Membership_AttendClient: s, cancel: cancel}
}

// beat sends heartbeats until the stream ends.
func (v *vm) beat(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-v.Context().Done():
			return
		case <-tick.C:
			v.mu.Lock()
			_ = v.Send(&treepb.FromVM{Message: &treepb.FromVM_Heartbeat{Heartbeat: &treepb.Heartbeat{}}}) // Recv says why
			v.mu.Unlock()
		}
	}
}

func (v *vm) send(m *treepb.FromVM) {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.Send(m); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vm) hello(name, address string) *treepb.Welcome {
	v.t.Helper()
	v.send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: &treepb.Hello{Protocol: 1, Vm: name, Address: address}}})
	m, err := v.Recv()
	if err != nil || m.GetWelcome() == nil {
		v.t.Fatalf("no welcome: %v, %v", m, err)
	}
	go v.beat(m.GetWelcome().Heartbeat.AsDuration())
	return m.GetWelcome()
}

func (v *vm) join(function string) {
	v.t.Helper()
	v.send(&treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: function}}})
}

// assigned waits for an assignment.
func (v *vm) assigned(is func(*treepb.Assignment) bool) *treepb.Assignment {
	v.t.Helper()
	for {
		m, err := v.Recv()
		if status.Code(err) == codes.DeadlineExceeded {
			v.t.Fatal("the assignment does not come")
		}
		if err != nil {
			v.t.Fatal(err)
		}
		if a := m.GetAssignment(); a != nil && is(a) {
			return a
		}
	}
}
