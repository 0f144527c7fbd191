package treeclient

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// DefaultWait bounds what a join adds to a container's start.
const DefaultWait = 500 * time.Millisecond

// Options of a Client. Coordinators, VM and Address are required.
type Options struct {
	// Coordinators are host:port addresses, any of which may be asked. They
	// are written as the coordinators name each other.
	Coordinators []string
	// VM is this VM's name, unique in its tenant.
	VM string
	// Address is where others reach this VM's relay, IP:port. Where the host is
	// empty or unspecified, the address towards the coordinator is announced.
	Address string
	// Credential returns the join credential, read again at each connection.
	// The default is none.
	Credential func() (string, error)
	// TLS secures the connections to coordinators. The default is plain.
	TLS *tls.Config
	// Dial makes a connection to a coordinator. It does not block. The default
	// dials TCP, with TLS if that is set.
	Dial func(address string) (*grpc.ClientConn, error)
	// Wait bounds Join. The default is DefaultWait.
	Wait time.Duration
	// Changed is told every change of a place, in order, one call at a time.
	// Changes that come faster than it returns are told as one. It must not
	// call Join.
	Changed func(function string, before, now Place)
	// Held returns how many blocks of the function's image this VM has. The
	// default is 0.
	Held func(function string) uint64
	// Load returns what this VM does. A VM whose load does not change is idle.
	// The default is zero.
	Load func() Load
	// Registerer takes the metrics. The default is none.
	Registerer prometheus.Registerer
}

// Load is what a VM has done since it started.
type Load struct {
	Relayed  uint64 // bytes sent to other VMs
	Read     uint64 // bytes read by its own containers
	Children int    // VMs that it serves now
}

func (o *Options) setDefaults() error {
	if len(o.Coordinators) == 0 || o.VM == "" || o.Address == "" {
		return fmt.Errorf("treeclient: coordinators, VM and relay address are needed: %w", errdefs.ErrInvalidArgument)
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Dial == nil {
		o.Dial = dialer(o.TLS)
	}
	if o.Changed == nil {
		o.Changed = func(string, Place, Place) {}
	}
	if o.Held == nil {
		o.Held = func(string) uint64 { return 0 }
	}
	if o.Load == nil {
		o.Load = func() Load { return Load{} }
	}
	return nil
}

// window bounds what a coordinator sends before we have read it, in bytes.
const window = 256 << 10

// connectTimeout bounds one try of a coordinator that does not answer.
const connectTimeout = 3 * time.Second

func dialer(t *tls.Config) func(string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if t != nil {
		creds = credentials.NewTLS(t)
	}
	return func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(creds),
			grpc.WithNoProxy(),                      // the proxy of the environment is for registries
			grpc.WithStaticStreamWindowSize(window), // one that is measured costs the coordinator a ping for each message
			grpc.WithStaticConnWindowSize(window),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		)
	}
}
