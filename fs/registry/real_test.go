package registry

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// startDistribution runs Debian's docker-registry on loopback until the test
// ends and returns its host:port.
func startDistribution(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf("version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: 127.0.0.1:0\n", dir)
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "docker-registry", "serve", file)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("docker-registry, of the Debian package of that name: %v", err)
	}
	found := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait() // killed by us
	})
	select {
	case addr := <-found:
		return addr
	case <-ended:
		t.Fatal("docker-registry ended before it listened")
	case <-time.After(30 * time.Second):
		t.Fatal("docker-registry does not listen")
	}
	return ""
}

// TestDistribution pushes to, and reads ranges of, the registry that most
// others are built from.
func TestDistribution(t *testing.T) {
	addr := startDistribution(t)
	if _, _, err := net.SplitHostPort(addr); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{})
	p := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(p)
	ref := addr + "/team/app:1"
	want := pushImage(t.Context(), t, c.Resolver(), ref, p)
	if _, got, err := c.Resolver().Resolve(t.Context(), ref); err != nil || got.Digest != want.Digest {
		t.Fatalf("resolve: %v, %v", got.Digest, err)
	}
	if got := fetch(t.Context(), t, c.Resolver(), ref, descriptor(ocispec.MediaTypeImageLayerZstd, p)); !bytes.Equal(got, p) {
		t.Error("the layer came back different")
	}
	l := layer{digest.FromBytes(p), p}
	s := blobs(t, c, ref)
	for _, r := range [][2]int{{0, len(p)}, {0, 1}, {len(p) - 1, 1}, {1 << 20, 512 << 10}} {
		l.read(t.Context(), t, s, r[0], r[1])
	}
	burst(t, s, l, 20)
}
