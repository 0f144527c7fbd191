// Package memory holds conversion to its bound on memory. It is apart from the
// other tests since the race detector, which multiplies memory, is not for it.
package memory

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

const (
	childEnv = "FAASNET_TEST_CONVERT_CHILD"
	// maxRSS is what converting may take, in bytes, whatever the layer's size.
	maxRSS = 256 << 20
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// TestCF09_Memory converts four layers at the same time, in a process of
// its own that believes it has many cores.
func TestCF09_Memory(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64 // of the one file in each layer, bytes
		o    convert.Options
	}{
		{"default", 384 << 20, convert.Options{}},
		{"largest blocks and level", 48 << 20, convert.Options{BlockSize: block.MaxSize, Level: block.LevelBest}},
	} {
		t.Run(c.name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", childEnv, c.size, c.o.BlockSize, c.o.Level), "GOMAXPROCS=32", "GOMEMLIMIT=off", "GOGC=100")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(out)
			if m == nil {
				t.Fatalf("no VmHWM in %s", out)
			}
			peak, err := strconv.Atoi(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("peak resident memory: %d MiB", peak>>10)
			if peak<<10 > maxRSS {
				t.Errorf("peak resident memory is %d MiB, want at most %d", peak>>10, maxRSS>>20)
			}
		})
	}
}

// child converts the layers and prints its own /proc/self/status.
func child() int {
	var (
		size int64
		o    convert.Options
	)
	fmt.Sscan(os.Getenv(childEnv), &size, &o.BlockSize, &o.Level)
	c, err := convert.New(o)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var g errgroup.Group
	for i := range 4 {
		var head indextest.Tar
		head.Add(indextest.Header{Name: fmt.Sprint("big", i), Size: size})
		l := &generated{head: head.Bytes()[:512], size: 512 + size + 1024}
		g.Go(func() error {
			sum := digest.SHA256.Digester()
			if _, err := io.Copy(sum.Hash(), io.NewSectionReader(l, 0, l.size)); err != nil {
				return err
			}
			desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: sum.Digest(), Size: l.size}
			_, err := c.Layer(context.Background(), sink{l}, desc)
			return err
		})
	}
	err = g.Wait()
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Println(string(status), err)
	if err != nil {
		return 1
	}
	return 0
}
