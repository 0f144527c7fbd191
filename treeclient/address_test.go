package treeclient

import (
	"testing"

	"github.com/containerd/errdefs"
)

func TestAnnounced(t *testing.T) {
	for _, c := range []struct{ address, coordinator, want string }{
		{"10.9.0.7:7000", "127.0.0.1:1", "10.9.0.7:7000"},
		{"[fd00::7]:7000", "127.0.0.1:1", "[fd00::7]:7000"},
		{":7000", "127.0.0.1:1", "127.0.0.1:7000"}, // the route to a coordinator on this host
		{"0.0.0.0:7000", "127.0.0.1:1", "127.0.0.1:7000"},
		{"[::]:7000", "127.0.0.1:1", "127.0.0.1:7000"},
	} {
		if got, err := announced(t.Context(), c.address, c.coordinator); err != nil || got != c.want {
			t.Errorf("%s towards %s: %s, %v; want %s", c.address, c.coordinator, got, err, c.want)
		}
	}
	if _, err := announced(t.Context(), "7000", "127.0.0.1:1"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("no host and port: %v", err)
	}
	if _, err := announced(t.Context(), ":7000", "nowhere"); !errdefs.IsUnavailable(err) {
		t.Errorf("no route: %v", err)
	}
}
