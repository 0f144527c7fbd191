package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Traffic is what went over a host's link, as the bridge's port counts it.
type Traffic struct{ Sent, Received int64 }

// Traffics reads the counters of all links of a hub at once, which costs so
// little that they can be followed through a burst. Close it.
type Traffics struct{ file *os.File }

// Traffics opens the counters.
func (h *Hub) Traffics() (t *Traffics, err error) {
	t = new(Traffics)
	err = h.net.within(func() (err error) {
		t.file, err = os.Open("/proc/thread-self/net/dev") // stays that of the namespace, wherever it is read
		return err
	})
	return t, err
}

// Read returns where the counters of the links stand, in their order.
func (t *Traffics) Read(links ...*Net) ([]Traffic, error) {
	p, err := io.ReadAll(io.NewSectionReader(t.file, 0, 1<<20))
	if err != nil {
		return nil, err
	}
	ports := map[string]Traffic{}
	in := bufio.NewScanner(bytes.NewReader(p))
	for in.Scan() {
		name, figures, ok := strings.Cut(in.Text(), ":")
		f := strings.Fields(figures)
		const columns, received, sent = 16, 0, 8 // bytes, packets and so on of each direction
		if !ok || len(f) < columns {
			continue
		}
		// What the bridge's end receives, the host has sent.
		rx, rxErr := strconv.ParseInt(f[received], 10, 64)
		tx, txErr := strconv.ParseInt(f[sent], 10, 64)
		if rxErr != nil || txErr != nil {
			return nil, fmt.Errorf("/proc/net/dev says %q", in.Text())
		}
		ports[strings.TrimSpace(name)] = Traffic{Sent: rx, Received: tx}
	}
	all := make([]Traffic, len(links))
	for i, n := range links {
		var ok bool
		if all[i], ok = ports[n.port]; !ok {
			return nil, fmt.Errorf("no link %s at the bridge", n.port)
		}
	}
	return all, nil
}

// Close ends the reading.
func (t *Traffics) Close() error { return t.file.Close() }
