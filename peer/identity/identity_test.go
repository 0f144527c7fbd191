package identity

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/golang-jwt/jwt/v5"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func keys(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub, priv
}

func read(t testing.TB, key ed25519.PrivateKey) (string, Claims) {
	t.Helper()
	c := Claims{Use: Read, Tenant: "acme", Function: "sha256:f", VM: "vm1", Expires: t0.Add(time.Minute)}
	token, err := Sign(key, c)
	if err != nil {
		t.Fatal(err)
	}
	return token, c
}

func at(d time.Duration) func() time.Time { return func() time.Time { return t0.Add(d) } }

func TestWhatIsSignedIsRead(t *testing.T) {
	pub, priv := keys(t)
	token, want := read(t, priv)
	got, err := Verifier{Keys: []ed25519.PublicKey{pub}, Now: at(0)}.Verify(token, Read)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Expires.Equal(want.Expires) {
		t.Fatalf("expires %v, want %v", got.Expires, want.Expires)
	}
	if got.Expires = want.Expires; got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestRefused(t *testing.T) {
	pub, priv := keys(t)
	_, stranger := keys(t)
	good, c := read(t, priv)
	forged, _ := read(t, stranger)
	c.Use, c.Function = Join, ""
	join, err := Sign(priv, c)
	if err != nil {
		t.Fatal(err)
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, wire{Tenant: "acme", Function: "sha256:f"}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	hmac, err := jwt.NewWithClaims(jwt.SigningMethodHS256, wire{Tenant: "acme"}).SignedString([]byte(pub))
	if err != nil {
		t.Fatal(err)
	}
	v := Verifier{Keys: []ed25519.PublicKey{pub}, Now: at(0)}
	late := Verifier{Keys: v.Keys, Now: at(time.Minute + Leeway + time.Second)}
	for _, c := range []struct {
		name, token string
		v           Verifier
	}{
		{"empty", "", v},
		{"not a token", "a.b.c", v},
		{"another key", forged, v},
		{"a join credential", join, v},
		{"unsigned", unsigned, v},
		{"signed with the public key as a secret", hmac, v},
		{"expired", good, late},
		{"no keys", good, Verifier{Now: at(0)}},
		{"one bit off", good[:len(good)-3] + "AAA", v},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.v.Verify(c.token, Read)
			if !errdefs.IsUnauthorized(err) {
				t.Fatalf("got %v", err)
			}
			if c.token != "" && strings.Contains(err.Error(), c.token) {
				t.Fatalf("the error shows the token: %v", err)
			}
		})
	}
	if _, err := v.Verify(join, Join); err != nil {
		t.Fatal(err)
	}
}

func TestIncompleteClaimsAreNotSigned(t *testing.T) {
	_, priv := keys(t)
	for _, c := range []Claims{
		{Use: Read, Tenant: "acme", Expires: t0},
		{Use: Read, Function: "f", Expires: t0},
		{Use: Join, Tenant: "acme"},
		{Use: Join, Tenant: "acme", Function: "f", Expires: t0},
	} {
		if _, err := Sign(priv, c); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	pub, priv := keys(f)
	token, _ := read(f, priv)
	f.Add(token)
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := (Verifier{Keys: []ed25519.PublicKey{pub}, Now: at(0)}).Verify(s, Read); err == nil && s != token {
			t.Fatalf("accepted %q", s)
		}
	})
}
