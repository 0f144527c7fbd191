package sim

import (
	"sync"
	"time"
)

// starting is one start of a function on a VM, at its costs.
type starting struct {
	v     *vm
	m     *image
	what  *Burst
	began time.Time
	Begun
}

func (s *starting) now() float64 { return time.Since(s.began).Seconds() }

// run starts the function and returns when it is READY.
func (s *starting) run(order []span) error {
	s.v.phase(s.what.Start.Pull)
	c, err := s.v.create(background, s.m)
	defer c.close()
	if err != nil {
		return err
	}
	if s.what.Recorded {
		defer c.rush()()
	}
	s.v.phase(s.what.Start.Create)
	s.Made = s.now()
	if len(order) == 0 {
		s.v.phase(s.what.Start.Run)
	}
	think := s.what.Start.Run.part(len(order))
	think.CPU += s.what.Start.Serve / float64(len(order))
	think.Wall += s.what.Start.Serve / float64(len(order))
	for _, r := range order {
		if err := c.view(background, r); err != nil {
			return err
		}
		if s.First == 0 {
			s.First = s.now()
		}
		if s.v.decodes(c, r) {
			s.v.cpu.use(seconds(s.what.Costs.Decode * BlockSize))
		}
		s.v.phase(think)
	}
	s.Ready = s.now()
	return nil
}

// rush begins to fetch the start layer, which is the last one; what it returns waits
// until that has ended.
func (c *container) rush() (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := c.layers[len(c.layers)-1].Rush(background, c.m.bytes()); err != nil {
			c.fail(err)
		}
	}()
	return func() { <-done }
}

// decodes reports whether this read is the VM's first of its block.
func (v *vm) decodes(c *container, r span) bool {
	id := c.layers[r.layer].ID()
	block := decoded{string(id.Blob), r.off / int64(id.BlockSize)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.decoded[block] {
		return false
	}
	v.decoded[block] = true
	return true
}

// decoded names a block that a VM has decoded.
type decoded struct {
	blob  string
	block int64
}

// part is the n-th part of a phase.
func (p Phase) part(n int) Phase { return Phase{p.Wall / float64(n), p.CPU / float64(n)} }

// phase passes a phase on the VM: what it computes, on two cores where it took
// less time than that, and what it waits.
func (v *vm) phase(p Phase) {
	var other sync.WaitGroup
	if beside := p.CPU - p.Wall; beside > 0 {
		other.Go(func() { v.cpu.use(seconds(beside)) })
		p.CPU = p.Wall
	}
	v.cpu.use(seconds(p.CPU))
	time.Sleep(seconds(p.Wall - p.CPU))
	other.Wait()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
