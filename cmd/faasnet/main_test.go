package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/mounttest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// asFaasnet makes the test binary the command.
const asFaasnet = "FAASNET_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asFaasnet) != "" {
		main()
	}
	log.SetLevel("error")
	goleak.VerifyTestMain(mounttest.Guard(m))
}

// command is a faasnet process to be, with a TMPDIR of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), asFaasnet+"=1", "FAASNET_RUNTIME_DIR="+runtimeOf(t), "TMPDIR="+t.TempDir(), "HOME="+t.TempDir())
	return cmd
}

// begun starts cmd and returns when it has written text to its standard error, of
// which all is kept. It dies with us.
func begun(t *testing.T, cmd *exec.Cmd, text string) *strings.Builder {
	t.Helper()
	found, all := newFinder(text), &strings.Builder{}
	stream := found.stream()
	cmd.Stderr = writerFunc(func(p []byte) (int, error) { all.Write(p); return stream.Write(p) })
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-found.done:
	case <-time.After(time.Minute):
		t.Errorf("%v does not say %q", cmd.Args, text)
	}
	return all
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// runtimeOf is the runtime directory of a test.
func runtimeOf(t *testing.T) string {
	t.Helper()
	const name = "FAASNET_RUNTIME_DIR"
	if os.Getenv(name) == "" {
		t.Setenv(name, t.TempDir())
	}
	return os.Getenv(name)
}

// faasnet runs a command line in this process and returns what it wrote.
func faasnet(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("FAASNET_RUNTIME_DIR", runtimeOf(t))
	var out, errs bytes.Buffer
	if code := run(append([]string{"faasnet"}, args...), &out, &errs); code != wantCode {
		t.Fatalf("faasnet %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, wantCode, &out, &errs)
	}
	noneLeft(t, os.Getenv("TMPDIR"))
	return out.String(), errs.String()
}

// noneLeft fails if a directory has anything in it.
func noneLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left", filepath.Join(dir, e.Name()))
	}
}

func newStore(t *testing.T) content.Store {
	t.Helper()
	cs, err := endpoint.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// files makes a tar stream of files with these contents.
func files(contents map[string]string) []byte {
	var tar indextest.Tar
	for _, name := range sorted(contents) {
		tar.Add(indextest.Header{Name: name, Body: contents[name]})
	}
	return tar.Bytes()
}

// put writes an image of a content store to a place.
func put(t *testing.T, cs content.Store, d ocispec.Descriptor, place string) {
	t.Helper()
	n, err := endpoint.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&endpoint.Places{}).Put(context.Background(), n, d, cs); err != nil {
		t.Fatal(err)
	}
}

// push writes an image into a registry, past its API.
func push(t *testing.T, reg *registrytest.Registry, repo, tag string, cs content.Store, d ocispec.Descriptor) {
	t.Helper()
	walk(t, cs, d, func(d ocispec.Descriptor, b []byte, isManifest bool) {
		if !isManifest {
			if _, _, err := reg.AddBlob(repo, bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := reg.AddManifest(repo, d.Digest.String(), d.MediaType, b); err != nil {
			t.Fatal(err)
		}
	})
	b, err := content.ReadBlob(t.Context(), cs, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.AddManifest(repo, tag, d.MediaType, b); err != nil {
		t.Fatal(err)
	}
}

// smallImage is an image of two layers and the tar streams that it has.
func smallImage(t *testing.T, cs content.Store) ocispec.Descriptor {
	t.Helper()
	return imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{
		{Tar: files(map[string]string{"etc/a": "A", "etc/big": strings.Repeat("0123456789abcdef", 100_000)})},
		{Tar: files(map[string]string{"etc/b": "B"})},
	}})
}

func decode[T any](t *testing.T, s string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}
