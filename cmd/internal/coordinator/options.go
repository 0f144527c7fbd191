package coordinator

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
	"github.com/faasnet/faasnet/treeclient"
)

// Defaults of Options.
const (
	DefaultHeartbeat    = 300 * time.Millisecond // repair begins before children give up
	DefaultMaxFunctions = 20                     // of one VM, paper section 4
	DefaultIdle         = 15 * time.Minute       // paper section 4
	DefaultTokenTTL     = 10 * time.Minute
	DefaultSettle       = 2500 * time.Millisecond // a VM is back within 2 s, see treeclient
	DefaultTenant       = "default"               // where no credentials are asked for
)

// Options of a Coordinator. Key is required.
type Options struct {
	// Form of the trees. The default is tree.Striped.
	Form tree.Form
	// Heartbeat is how often a VM sends one. One that has sent nothing for
	// three is dead. The default is DefaultHeartbeat.
	Heartbeat time.Duration
	// MaxFunctions bounds the trees that a VM is in. The default is
	// DefaultMaxFunctions.
	MaxFunctions int
	// Idle is after how long a VM that neither reads nor relays leaves its
	// trees. The default is DefaultIdle.
	Idle time.Duration
	// Settle bounds how long VMs that come back to a new coordinator keep the
	// places of the old one while the others of their tree are awaited. The
	// default is DefaultSettle.
	Settle time.Duration
	// TokenTTL is how long a function token is good. The default is
	// DefaultTokenTTL.
	TokenTTL time.Duration
	// Key signs function tokens.
	Key ed25519.PrivateKey
	// Credentials checks join credentials. Without keys none are asked for
	// and every VM is of DefaultTenant.
	Credentials identity.Verifier
	// AllowLoopback accepts VMs on this host that announce a loopback address,
	// for fleets on one host without namespaces.
	AllowLoopback bool
	// Journal keeps trees outside of this process. The default keeps nothing.
	Journal Journal
	// Registerer takes the metrics. The default is none.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() error {
	if len(o.Key) != ed25519.PrivateKeySize {
		return fmt.Errorf("coordinator: a key of %d bytes, want %d: %w", len(o.Key), ed25519.PrivateKeySize, errdefs.ErrInvalidArgument)
	}
	if min(o.Heartbeat, o.Idle, o.Settle, o.TokenTTL) < 0 || o.MaxFunctions < 0 {
		return fmt.Errorf("coordinator: negative limit: %w", errdefs.ErrInvalidArgument)
	}
	o.Form = cmp.Or(o.Form, tree.Striped)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.MaxFunctions = cmp.Or(o.MaxFunctions, DefaultMaxFunctions)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	o.Settle = cmp.Or(o.Settle, DefaultSettle)
	o.TokenTTL = cmp.Or(o.TokenTTL, DefaultTokenTTL)
	if o.Heartbeat < treeclient.MinHeartbeat {
		return fmt.Errorf("coordinator: heartbeat %v is shorter than %v: %w", o.Heartbeat, treeclient.MinHeartbeat, errdefs.ErrInvalidArgument)
	}
	if o.Journal == nil {
		o.Journal = nothing{}
	}
	_, err := tree.New(o.Form)
	return err
}
