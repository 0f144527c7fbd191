package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// acceptPause is how long a listener that fails, for want of descriptors, is
// left alone.
const acceptPause = 100 * time.Millisecond

// provenWithin is how long a VM may be connected without showing a good token.
const provenWithin = 10 * time.Second

// accept takes connections until the listener is closed.
func (r *Relay) accept(ctx context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			r.take(c) //nolint:contextcheck // it lives under Run's, which is ours
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			return err
		default:
			log.G(ctx).WithError(err).Warn("relay: cannot accept")
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// guest is a connection that another VM has made.
type guest struct{ net net.Conn }

// take serves a connection that another VM has made. Where there are too many,
// the one that has shown no token for longest makes room: whoever opens many and
// has no right to any does not lock out those who have.
func (r *Relay) take(c net.Conn) {
	g := &guest{c}
	r.mu.Lock()
	full := len(r.guests) >= r.opts.MaxConns
	var oldest *guest
	if full && len(r.unproven) > 0 {
		oldest = r.unproven[0]
		r.dismissLocked(oldest)
	}
	ok := len(r.guests) < r.opts.MaxConns && r.startLocked(func() {
		defer func() {
			r.mu.Lock()
			r.dismissLocked(g)
			r.mu.Unlock()
		}()
		defer c.Close()
		k, err := r.shake(r.ctx, c, "")
		if err != nil {
			r.unmet(c, err)
			return
		}
		unproven := time.AfterFunc(provenWithin, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if !k.proven {
				k.close(fmt.Errorf("%s has shown no token: %w", k.vm, errdefs.ErrUnauthenticated))
			}
		})
		defer unproven.Stop()
		k.guest = g
		r.hold(k)
	})
	if ok {
		r.guests[g] = struct{}{}
		r.unproven = append(r.unproven, g)
	}
	r.mu.Unlock()
	if oldest != nil {
		oldest.net.Close()
	}
	if !ok {
		c.Close()
	}
	if full && r.crowded.Allow() {
		log.G(r.ctx).WithField("remote", c.RemoteAddr()).WithField("connections", r.opts.MaxConns).WithField("taken", ok).
			Warn("relay: too many connections; those that show no token go first")
	}
}

// unmet logs why a connection that somebody made came to nothing: a certificate that
// is no good is worth a line now and then, noise on the port is not.
func (r *Relay) unmet(c net.Conn, err error) {
	l := log.G(r.ctx).WithError(err).WithField("remote", c.RemoteAddr())
	if errdefs.IsUnauthorized(err) && r.crowded.Allow() {
		l.Warn("relay: connection refused")
		return
	}
	l.Debug("relay: no handshake")
}

// dismissLocked makes room for another guest. Relay.mu is held.
func (r *Relay) dismissLocked(g *guest) {
	delete(r.guests, g)
	r.trustLocked(g)
}

// trustLocked notes that g has shown a token, or is gone. Relay.mu is held.
func (r *Relay) trustLocked(g *guest) {
	r.unproven = slices.DeleteFunc(r.unproven, func(o *guest) bool { return o == g })
}

// shake makes a conn of a connection to vm, or, where that is empty, of one that
// another VM has made.
func (r *Relay) shake(ctx context.Context, c net.Conn, vm string) (*conn, error) {
	if err := tune(c); err != nil {
		return nil, fmt.Errorf("socket options: %w", err)
	}
	if r.opts.TLS != nil {
		t, err := r.secure(ctx, c, vm)
		if err != nil {
			return nil, err
		}
		c = t
	}
	name, err := greet(ctx, c, r.opts.VM, r.opts.Connect)
	if err != nil {
		return nil, err
	}
	if vm != "" && name != vm {
		return nil, fmt.Errorf("%s is now the address of %s: %w", c.RemoteAddr(), name, errdefs.ErrUnavailable)
	}
	if t, ok := c.(*tls.Conn); ok {
		if err := t.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, err, errdefs.ErrUnauthenticated)
		}
	}
	return newConn(r, c, name, vm != ""), nil
}

// secure puts TLS on a connection.
func (r *Relay) secure(ctx context.Context, c net.Conn, vm string) (*tls.Conn, error) {
	conf := r.opts.TLS.Clone()
	conf.MinVersion = tls.VersionTLS13
	var t *tls.Conn
	if vm != "" {
		conf.ServerName = vm
		t = tls.Client(c, conf)
	} else {
		conf.ClientAuth = tls.RequireAndVerifyClientCert
		t = tls.Server(c, conf)
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Connect)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS with %s: %w: %w", c.RemoteAddr(), err, errdefs.ErrUnauthenticated)
	}
	return t, nil
}

// hold serves a connection until it ends.
func (r *Relay) hold(c *conn) {
	r.mu.Lock()
	r.conns[c] = struct{}{}
	r.mu.Unlock()
	err := c.run()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	r.lost(c, err)
}
