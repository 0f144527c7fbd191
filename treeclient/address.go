package treeclient

import (
	"fmt"
	"net"

	"github.com/containerd/errdefs"
)

// announced returns what other VMs dial: listen as it is when it names an
// address that they can reach, else its port at the address from which the
// route to the coordinator starts. So a VM with a container bridge announces
// the interface that the fleet is on (PN-12).
func announced(listen, coordinator string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("treeclient: relay address %q: %w: %w", listen, err, errdefs.ErrInvalidArgument)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return listen, nil
	}
	// A datagram socket that is connected sends nothing: the kernel only picks
	// the route.
	c, err := net.Dial("udp", coordinator)
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
