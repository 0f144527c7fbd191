package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient makes a client that ends with the test.
func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// layer is a blob of random bytes in a repository.
type layer struct {
	digest digest.Digest
	bytes  []byte
}

func addLayer(t *testing.T, reg *registrytest.Registry, repository string, size int) layer {
	t.Helper()
	p := make([]byte, size)
	src := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = src.Read(p)
	d, _, err := reg.AddBlob(repository, bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	return layer{d, p}
}

func (l layer) ref(off, size int) block.Ref {
	return block.Ref{Blob: l.digest, Number: off / max(1, size), Offset: int64(off), Size: size, Sum: sha256.Sum256(l.bytes[off : off+size])}
}

// bare is a ref without a sum.
func (l layer) bare(off, size int) block.Ref {
	return block.Ref{Blob: l.digest, Number: off / size, Offset: int64(off), Size: size}
}

// read reads a block and checks it.
func (l layer) read(ctx context.Context, t *testing.T, s block.Source, off, size int) {
	t.Helper()
	ref := l.ref(off, size)
	p, err := s.ReadBlock(ctx, ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ref.Verify(p); err != nil {
		t.Fatal(err)
	}
}

func blobs(t *testing.T, c *Client, ref string) block.Source {
	t.Helper()
	s, err := c.Blobs(ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// static is a source of one credential for all hosts.
func static(user, password string) func(context.Context, string, string) (Credential, error) {
	return func(context.Context, string, string) (Credential, error) {
		return Credential{Username: user, Password: password}, nil
	}
}

// byHost is a source of credentials by host.
type byHost map[string]Credential

func (m byHost) get(_ context.Context, host, _ string) (Credential, error) { return m[host], nil }

type reader = block.Source

// hostsToml makes a certs.d with the hosts.toml of one host.
func hostsToml(t *testing.T, host, text string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, host)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return root
}

// newServer serves h on loopback until the test ends and returns its URL.
func newServer(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
