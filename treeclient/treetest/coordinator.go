package treetest

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// Tenant is whose all VMs of a Coordinator are.
const Tenant = "default"

// Coordinator is a coordinator that does what a test says. By itself it gives
// VMs the places of a heap in the order in which they join, in one stripe.
type Coordinator struct {
	treepb.UnimplementedMembershipServer
	// Heartbeat is what VMs are told. The default is 300 ms.
	Heartbeat time.Duration
	// Said is told what a VM says, its hello included, before it is acted on.
	// False: it is not acted on. The default is always true.
	Said func(vm string, m *treepb.FromVM) bool

	mu    sync.Mutex
	key   ed25519.PrivateKey
	epoch uint64
	vms   map[string]*attendee
	trees map[string][]string // VMs by function
}

type attendee struct {
	peer *treepb.Peer
	out  chan *treepb.ToVM
}

// NewCoordinator returns a coordinator that nobody attends.
func NewCoordinator() (*Coordinator, error) {
	_, key, err := ed25519.GenerateKey(nil)
	return &Coordinator{key: key, vms: map[string]*attendee{}, trees: map[string][]string{}, epoch: 1}, err
}

// Register serves VMs on s.
func (c *Coordinator) Register(s grpc.ServiceRegistrar) { treepb.RegisterMembershipServer(s, c) }

// Key checks the tokens that c signs.
func (c *Coordinator) Key() ed25519.PublicKey { return c.key.Public().(ed25519.PublicKey) }

// Attend serves one VM.
func (c *Coordinator) Attend(stream treepb.Membership_AttendServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return errors.New("no hello")
	}
	vm := hello.Vm
	beat := c.Heartbeat
	if beat == 0 {
		beat = 300 * time.Millisecond
	}
	if c.Said != nil && !c.Said(vm, first) {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	a := &attendee{peer: &treepb.Peer{Vm: vm, Address: hello.Address}, out: make(chan *treepb.ToVM, 1024)}
	a.out <- &treepb.ToVM{Message: &treepb.ToVM_Welcome{Welcome: &treepb.Welcome{
		Heartbeat: durationpb.New(beat), TokenKey: c.Key(), MaxFunctions: 20, Tenant: Tenant,
	}}}
	c.mu.Lock()
	c.vms[vm] = a
	c.mu.Unlock()
	defer c.gone(vm, a)
	heard := make(chan error, 1)
	go func() { heard <- c.listen(stream, vm) }()
	pulse := time.NewTicker(4 * beat)
	defer pulse.Stop()
	for {
		m := &treepb.ToVM{}
		select {
		case err := <-heard:
			return err
		case m = <-a.out:
		case <-pulse.C:
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

func (c *Coordinator) listen(stream treepb.Membership_AttendServer, vm string) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Said != nil && !c.Said(vm, m) {
			continue
		}
		switch m := m.Message.(type) {
		case *treepb.FromVM_Join:
			c.change(m.Join.Function, func(vms []string) []string {
				if slices.Contains(vms, vm) {
					return vms
				}
				return append(vms, vm)
			})
		case *treepb.FromVM_Leave:
			c.change(m.Leave.Function, func(vms []string) []string {
				return slices.DeleteFunc(vms, func(v string) bool { return v == vm })
			})
		}
	}
}

func (c *Coordinator) gone(vm string, a *attendee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vms[vm] != a {
		return
	}
	for f := range c.trees {
		c.changeLocked(f, func(vms []string) []string {
			return slices.DeleteFunc(vms, func(v string) bool { return v == vm })
		})
	}
	delete(c.vms, vm)
}

// change changes who is in a function and tells all that are.
func (c *Coordinator) change(function string, do func([]string) []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changeLocked(function, do)
}

func (c *Coordinator) changeLocked(function string, do func([]string) []string) {
	c.trees[function] = do(c.trees[function])
	c.epoch++
	for i := range c.trees[function] {
		c.send(c.trees[function][i], c.heap(function, i))
	}
}

func (c *Coordinator) heap(function string, i int) *treepb.ToVM {
	vms := c.trees[function]
	peer := func(i int) *treepb.Peer { return c.vms[vms[i]].peer }
	s := &treepb.Stripe{}
	if i > 0 {
		s.Upstream = peer((i - 1) / 2)
		for up := (i - 1) / 2; up > 0; up = (up - 1) / 2 {
			s.Ancestors = append(s.Ancestors, peer((up-1)/2))
		}
	}
	for d := 2*i + 1; d < min(2*i+3, len(vms)); d++ {
		s.Downstream = append(s.Downstream, peer(d))
	}
	a := &treepb.Assignment{Function: function, Epoch: c.epoch, Stripes: []*treepb.Stripe{s}}
	return &treepb.ToVM{Message: &treepb.ToVM_Assignment{Assignment: c.sign(vms[i], a)}}
}

// sign adds a token where there is none.
func (c *Coordinator) sign(vm string, a *treepb.Assignment) *treepb.Assignment {
	if a.Token != "" {
		return a
	}
	expires := time.Now().Add(10 * time.Minute).Truncate(time.Second) // as a token says it
	token, err := identity.Sign(c.key, identity.Claims{Use: identity.Read, Tenant: Tenant, Function: a.Function, VM: vm, Expires: expires})
	if err != nil {
		panic(err) // only for a function without a name
	}
	a.Token, a.TokenExpires = token, timestamppb.New(expires)
	return a
}

func (c *Coordinator) send(vm string, m *treepb.ToVM) {
	if a := c.vms[vm]; a != nil {
		a.out <- m
	}
}

// Send tells a VM that attends anything. An assignment without a token gets
// one, and without an epoch the next.
func (c *Coordinator) Send(vm string, m *treepb.ToVM) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vms[vm] == nil {
		return fmt.Errorf("VM %q does not attend", vm)
	}
	if a := m.GetAssignment(); a != nil {
		if a.Epoch == 0 {
			c.epoch++
			a.Epoch = c.epoch
		}
		c.sign(vm, a)
	}
	c.send(vm, m)
	return nil
}

// Assign gives a VM a place in a function.
func (c *Coordinator) Assign(vm, function string, stripes ...*treepb.Stripe) error {
	return c.Send(vm, &treepb.ToVM{Message: &treepb.ToVM_Assignment{Assignment: &treepb.Assignment{Function: function, Stripes: stripes}}})
}
