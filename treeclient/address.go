package treeclient

import (
	"context"
	"fmt"
	"net"

	"github.com/containerd/errdefs"
)

// announced returns what other VMs dial: address as it is when its host is one
// that they can reach, else its port at the address from which the route to
// the coordinator starts. So a VM with a container bridge announces the
// interface that the fleet is on (PN-12).
func announced(ctx context.Context, address, coordinator string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("treeclient: relay address %q: %w: %w", address, err, errdefs.ErrInvalidArgument)
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return address, nil
	}
	// A datagram socket that is connected sends nothing: the kernel only picks
	// the route.
	c, err := new(net.Dialer).DialContext(ctx, "udp", coordinator)
	if err != nil {
		return "", fmt.Errorf("treeclient: no route to coordinator %s: %w: %w", coordinator, err, errdefs.ErrUnavailable)
	}
	defer c.Close()
	host, _, err = net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}
