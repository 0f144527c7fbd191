package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/faasnet/faasnet/treeclient"
)

// authority signs certificates and writes them as files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca", &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// make writes NAME.pem and NAME.key.
func (a *authority) make(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) leaf(name string) {
	a.make(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func TestTLS(t *testing.T) {
	fleetCA, operators := newAuthority(t, "fleet"), newAuthority(t, "operators")
	fleetCA.leaf("server")
	fleetCA.leaf("vm")
	operators.leaf("scheduler")
	scheduler := freeAddress(t)
	s := start(t, "--scheduler-listen", scheduler, "--tls-cert", fleetCA.file("server.pem"), "--tls-key", fleetCA.file("server.key"),
		"--tls-client-ca", fleetCA.file("ca.pem"), "--config", configFile(t, "[tls]\nscheduler_client_ca = \""+operators.file("ca.pem")+"\"\n"))
	secured := func(cert string) func(*treeclient.Options) {
		return func(o *treeclient.Options) {
			c, err := clientTLS(fleetCA.file("ca.pem"), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if cert != "" {
				pair, err := tls.LoadX509KeyPair(cert+".pem", cert+".key")
				if err != nil {
					t.Fatal(err)
				}
				c.Certificates = []tls.Certificate{pair}
			}
			o.TLS = c
		}
	}
	good, _ := vm(t, "good", secured(fleetCA.file("vm")), s.vms)
	join(t, good, "f")
	for name, edit := range map[string]func(*treeclient.Options){
		"plain": nil, "without a certificate": secured(""), "of another authority": secured(operators.file("scheduler")),
	} {
		c, stop := vm(t, name, edit, s.vms)
		for range 5 {
			if _, err := c.Join(t.Context(), "f"); err == nil {
				t.Errorf("%s: joined", name)
			}
			time.Sleep(50 * time.Millisecond)
		}
		stop()
	}
	ask := func(cert string) (int, string) {
		args := []string{"tree", "--address", scheduler, "--tls-ca", fleetCA.file("ca.pem")}
		if cert != "" {
			args = append(args, "--tls-cert", cert+".pem", "--tls-key", cert+".key")
		}
		code, out, errs := call(t, append(args, "f")...)
		return code, out + errs
	}
	if code, out := ask(operators.file("scheduler")); code != exitOK || !strings.Contains(out, "1 VMs") {
		t.Errorf("scheduler: exit %d, %s", code, out)
	}
	for name, cert := range map[string]string{"a VM": fleetCA.file("vm"), "nobody": ""} {
		if code, out := ask(cert); code != exitFailed {
			t.Errorf("%s reaches the scheduler's side: %s", name, out)
		}
	}
}

// configFile writes a configuration file.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
