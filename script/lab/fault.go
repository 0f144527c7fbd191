package lab

import (
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Fault is what may happen to a VM.
type Fault string

const (
	// Kill kills all processes; the kernel ends their connections.
	Kill Fault = "kill"
	// Stop freezes all processes; the kernel still answers for them.
	Stop Fault = "stop"
	// LinkDown cuts the link; nobody hears anything any more.
	LinkDown Fault = "link-down"
)

// Faults lists all kinds.
func Faults() []Fault { return []Fault{Kill, Stop, LinkDown} }

// Fail does it to the VM.
func (v *VM) Fail(f Fault) error {
	switch f {
	case Kill:
		return v.group.kill()
	case Stop:
		return v.group.signal(unix.SIGSTOP)
	case LinkDown:
		return v.Net.SetUp(false)
	}
	return fmt.Errorf("fault %q is none of %q: %w", f, Faults(), errdefs.ErrInvalidArgument)
}

// Heal undoes Stop and LinkDown.
func (v *VM) Heal(f Fault) error {
	switch f {
	case Stop:
		return v.group.signal(unix.SIGCONT)
	case LinkDown:
		return v.Net.SetUp(true)
	}
	return fmt.Errorf("fault %q cannot be undone: %w", f, errdefs.ErrInvalidArgument)
}

// signal gives all processes of the group a signal, those too that start
// meanwhile.
func (g group) signal(sig unix.Signal) error {
	var had []int
	for {
		pids, err := g.pids()
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return slices.Contains(had, pid) })
		if len(fresh) == 0 {
			return nil
		}
		for _, pid := range fresh {
			_ = unix.Kill(pid, sig) // it may have ended
		}
		had = append(had, fresh...)
	}
}

// SetUp cuts the link at the bridge, or mends it.
func (n *Net) SetUp(up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return n.hub.net.run("ip", "link", "set", "dev", n.port, state)
}

// SetRate changes what the link carries both ways.
func (n *Net) SetRate(rate string) error { return n.shape("change", rate) }
