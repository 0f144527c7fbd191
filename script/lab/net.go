package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Net is a network namespace that has no name: it goes with its last process
// and with close.
type Net struct {
	ns *os.File
	// Addr is the host's address on the bridge.
	Addr string
	port string // the bridge's end of the link
	hub  *Hub   // nil: not linked
	lab  *Lab
}

// net makes a namespace that the lab closes.
func (l *Lab) net() (*Net, error) {
	type result struct {
		f   *os.File
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // as in within
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{nil, fmt.Errorf("new network namespace: %w", err)}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		made <- result{f, err}
	}()
	r := <-made
	if r.err != nil {
		return nil, r.err
	}
	n := &Net{ns: r.f, lab: l}
	l.nets = append(l.nets, n)
	return n, n.run("ip", "link", "set", "lo", "up")
}

func (n *Net) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.ns.Fd()) }

func (n *Net) run(argv ...string) error {
	out, err := exec.CommandContext(context.Background(), "nsenter", append([]string{"--net=" + n.path()}, argv...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// Hub is a bridge in a namespace of its own to which hosts are linked.
type Hub struct {
	lab   *Lab
	net   *Net
	ports int
}

// Hub adds a bridge.
func (l *Lab) Hub() (*Hub, error) {
	net, err := l.net()
	if err != nil {
		return nil, err
	}
	if err := net.run("ip", "link", "add", "br0", "type", "bridge"); err != nil {
		return nil, err
	}
	return &Hub{lab: l, net: net}, net.run("ip", "link", "set", "br0", "up")
}

// Link adds a namespace whose link to the bridge carries rate both ways, as
// tc says it ("200mbit"); "" does not shape.
func (h *Hub) Link(rate string) (*Net, error) {
	n, err := h.lab.net()
	if err != nil {
		return nil, err
	}
	h.ports++
	n.hub, n.port, n.Addr = h, "p"+strconv.Itoa(h.ports), fmt.Sprintf("10.231.%d.%d", h.ports/250, h.ports%250+1)
	steps := [][]string{
		{"ip", "link", "add", n.port, "type", "veth", "peer", "name", "eth0", "netns", n.path()},
		{"ip", "link", "set", n.port, "master", "br0", "up"},
	}
	for _, s := range steps {
		if err := h.net.run(s...); err != nil {
			return nil, err
		}
	}
	for _, s := range [][]string{{"ip", "addr", "add", n.Addr + "/16", "dev", "eth0"}, {"ip", "link", "set", "eth0", "up"}} {
		if err := n.run(s...); err != nil {
			return nil, err
		}
	}
	if rate == "" {
		return n, nil
	}
	return n, n.shape("add", rate)
}

// shape sets the queues of both ends of the link.
func (n *Net) shape(verb, rate string) error {
	tbf := func(dev string) []string {
		return []string{"tc", "qdisc", verb, "dev", dev, "root", "tbf", "rate", rate, "burst", "256kb", "limit", "1mb"}
	}
	if err := n.run(tbf("eth0")...); err != nil {
		return err
	}
	return n.hub.net.run(tbf(n.port)...)
}

// Sent returns the bytes that the host sent, as the bridge's port counts them.
func (n *Net) Sent() (int64, error) {
	s, err := n.counters()
	if err != nil {
		return 0, err
	}
	return s.Rx.Bytes, nil
}

func (n *Net) counters() (*stats, error) {
	out, err := exec.CommandContext(context.Background(), "nsenter", "--net="+n.hub.net.path(), "ip", "-json", "-s", "link", "show", "dev", n.port).Output()
	if err != nil {
		return nil, fmt.Errorf("counters of %s: %w", n.port, err)
	}
	var links []struct{ Stats64 stats }
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		return nil, fmt.Errorf("counters of %s: %w: %s", n.port, err, out)
	}
	return &links[0].Stats64, nil
}

type stats struct {
	Rx, Tx struct{ Bytes int64 }
}
