// Package identity says who a VM is and what it may have. A VM holds a join
// credential that names its tenant; the coordinator answers it with
// short-lived function tokens, which the VM shows to its upstream VMs; those
// know the coordinator's public key and need nobody else to check them.
//
// Both are JSON Web Tokens (RFC 7519) signed with Ed25519 (RFC 8037).
// Registry credentials are no part of this: they never go to a peer.
package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/golang-jwt/jwt/v5"
)

// Leeway is how far the clocks of two VMs may differ.
const Leeway = 5 * time.Second

// Use tells a credential from a token: one is never good for the other.
type Use string

// The uses of a token.
const (
	Join Use = "faasnet/join" // shown to the coordinator, names tenant and VM
	Read Use = "faasnet/read" // shown to an upstream VM, names the function too
)

// Claims is what a token says.
type Claims struct {
	Use      Use
	Tenant   string
	Function string // of a Read token
	VM       string // whom it was given to; empty in a Join credential: any VM of the tenant
	Expires  time.Time
}

type wire struct {
	Tenant   string `json:"tenant"`
	Function string `json:"function,omitempty"`
	jwt.RegisteredClaims
}

// Sign makes the token that says c.
func Sign(key ed25519.PrivateKey, c Claims) (string, error) {
	if c.Tenant == "" || c.Expires.IsZero() || (c.Use == Read) != (c.Function != "") {
		return "", fmt.Errorf("token for %+v lacks a tenant, a function or an end: %w", c, errdefs.ErrInvalidArgument)
	}
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, wire{
		Tenant:   c.Tenant,
		Function: c.Function,
		RegisteredClaims: jwt.RegisteredClaims{
			Subject:   c.VM,
			Audience:  jwt.ClaimStrings{string(c.Use)},
			ExpiresAt: jwt.NewNumericDate(c.Expires),
		},
	}).SignedString(key)
}

// Verifier checks tokens. The zero value accepts none.
type Verifier struct {
	// Keys are the public keys of the coordinators, any of which may have
	// signed.
	Keys []ed25519.PublicKey
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Verify returns what token says if it is signed, of the given use and not
// expired. The error matches errdefs.ErrUnauthenticated and never holds the
// token.
func (v Verifier) Verify(token string, use Use) (Claims, error) {
	now := v.Now
	if now == nil {
		now = time.Now
	}
	keys := jwt.VerificationKeySet{}
	for _, k := range v.Keys {
		keys.Keys = append(keys.Keys, k)
	}
	var w wire
	_, err := jwt.ParseWithClaims(token, &w,
		func(*jwt.Token) (any, error) {
			if len(keys.Keys) == 0 {
				return nil, errors.New("no key to check it with")
			}
			return keys, nil
		},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(string(use)),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(Leeway),
		jwt.WithTimeFunc(now),
	)
	switch {
	case err != nil:
		return Claims{}, fmt.Errorf("token refused: %w: %w", err, errdefs.ErrUnauthenticated)
	case w.Tenant == "" || (use == Read) != (w.Function != ""):
		return Claims{}, fmt.Errorf("token refused: tenant or function missing: %w", errdefs.ErrUnauthenticated)
	}
	return Claims{Use: use, Tenant: w.Tenant, Function: w.Function, VM: w.Subject, Expires: w.ExpiresAt.Time}, nil
}
