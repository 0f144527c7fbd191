package lab

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ReceivedFrom returns what the host's TCP connections that are open have
// received, in bytes of payload by IP address of the other end.
func (h *Host) ReceivedFrom(ctx context.Context) (map[string]int64, error) {
	out, err := h.Run(ctx, "ss", "-tinHO")
	if err != nil {
		return nil, err
	}
	from := map[string]int64{}
	for line := range strings.Lines(out) {
		// State, queues, local and remote address; then names and values.
		const remote = 4
		f := strings.Fields(line)
		if len(f) <= remote {
			continue
		}
		host, _, err := net.SplitHostPort(f[remote])
		if err != nil {
			return nil, fmt.Errorf("ss says %q: %w", line, err)
		}
		for _, field := range f[remote+1:] {
			if value, ok := strings.CutPrefix(field, "bytes_received:"); ok {
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("ss says %q: %w", line, err)
				}
				from[strings.TrimPrefix(strings.Trim(host, "[]"), "::ffff:")] += n
			}
		}
	}
	return from, nil
}
