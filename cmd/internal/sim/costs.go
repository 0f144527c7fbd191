package sim

import (
	"net"
	"sync/atomic"
	"time"
)

// Costs are CPU seconds for each byte that a VM handles; Serve also those of the
// registry's process, which count where all share their cores.
type Costs struct {
	Receive float64 `json:"receive_s_per_byte"` // from the network to the store, verified
	Send    float64 `json:"send_s_per_byte"`    // to another VM
	Decode  float64 `json:"decode_s_per_byte"`  // of the decoded bytes
	Serve   float64 `json:"serve_s_per_byte"`   // by the registry
}

// debt is what is computed before a connection has its process wait for a core:
// one that pays for each packet would mostly wait.
const debt = 200 * time.Microsecond

// costly is a connection on which bytes cost CPU time of a VM.
type costly struct {
	net.Conn
	cpu        *cores
	read, sent float64 // seconds a byte
	owed       [2]atomic.Int64
}

// costly makes what Dial returned cost what it costs on the VM.
func (v *vm) costly(c net.Conn, err error) (net.Conn, error) {
	if err != nil || v.cpu == nil {
		return c, err
	}
	out := &costly{Conn: c, cpu: v.cpu, read: v.w.o.costs.Receive, sent: v.w.o.costs.Send}
	if v.w.o.shared && c.RemoteAddr().String() == v.w.regHost.Address() {
		out.read += v.w.o.costs.Serve
	}
	return out, nil
}

// Read is that of net.Conn.
func (c *costly) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.pay(0, n, c.read)
	return n, err
}

// Write is that of net.Conn.
func (c *costly) Write(p []byte) (int, error) {
	c.pay(1, len(p), c.sent)
	return c.Conn.Write(p)
}

func (c *costly) pay(way, n int, each float64) {
	if owed := c.owed[way].Add(int64(float64(n) * each * float64(time.Second))); owed >= int64(debt) {
		c.owed[way].Add(-owed)
		c.cpu.use(time.Duration(owed))
	}
}

// costlyListener is the listener of a VM's relay.
type costlyListener struct {
	net.Listener
	v *vm
}

// Accept is that of net.Listener.
func (l costlyListener) Accept() (net.Conn, error) { return l.v.costly(l.Listener.Accept()) }
