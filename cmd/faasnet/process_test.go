package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestCF21_SameBytesInAnyEnvironment(t *testing.T) {
	cs := newStore(t)
	var manifests []ocispec.Descriptor
	for i, p := range []string{"linux/amd64", "linux/arm64", "linux/s390x"} {
		var layers []imagetest.Layer
		for j := range 3 {
			layers = append(layers, imagetest.Layer{Tar: files(map[string]string{
				fmt.Sprint("f", i, j): strings.Repeat(fmt.Sprint("some text ", i, j), 100_000),
			})})
		}
		manifests = append(manifests, imagetest.Put(t, cs, imagetest.Image{Platform: platforms.MustParse(p), Layers: layers}))
	}
	src := filepath.Join(t.TempDir(), "src")
	put(t, cs, imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, manifests...), "oci:"+src+":1")
	var want string
	for i := range 20 {
		dir := t.TempDir()
		cmd := command(t, "convert", "--all-platforms", "-q", "oci:"+src, "oci:"+filepath.Join(dir, "out:1"))
		cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", 1+i%2), "TZ="+[]string{"UTC", "Asia/Kolkata", "America/St_Johns"}[i%3])
		// The umask is the process's own: a shell sets it.
		cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`umask %s; exec "$0" "$@"`, []string{"022", "077", "000"}[i%3]), cmd.Path}, cmd.Args[1:]...)
		var err error
		if cmd.Path, err = exec.LookPath("sh"); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := tree(t, filepath.Join(dir, "out"))
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("conversion %d gives\n%s\nthe first gave\n%s", i, got, want)
		}
	}
}

// tree lists the files of a directory with modes, sizes and, for what is no
// blob, contents: a blob's name is its digest.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprintln(&out, rel, info.Mode(), info.Size())
		if filepath.Dir(rel) == "." {
			b, err := os.ReadFile(path)
			fmt.Fprintln(&out, string(b))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestInterrupted(t *testing.T) {
	cs := newStore(t)
	src := smallImage(t, cs)
	for _, c := range []struct {
		signal syscall.Signal
		stage  registrytest.Kind // the request at which the registry stalls
		method string
	}{
		{syscall.SIGINT, registrytest.Blobs, "GET"},
		{syscall.SIGTERM, registrytest.Blobs, "GET"},
		{syscall.SIGHUP, registrytest.Blobs, "GET"},
		{syscall.SIGQUIT, registrytest.Blobs, "GET"},
		{syscall.SIGINT, registrytest.Uploads, "PUT"},
		{syscall.SIGTERM, registrytest.Manifests, "PUT"},
	} {
		for _, kind := range []string{"registry", "layout", "archive"} {
			if kind != "registry" && c.method == "PUT" {
				continue
			}
			t.Run(fmt.Sprintf("%v at %s %d to %s", c.signal, c.method, c.stage, kind), func(t *testing.T) {
				reg := registrytest.New(t, registrytest.Options{})
				push(t, reg, "app", "1", cs, src)
				stalled := make(chan struct{}, 100)
				of := registrytest.Of(c.stage)
				big := imagetest.Read[ocispec.Manifest](t, cs, src).Layers[0].Digest.String()
				reg.Every(matcher(func(method, path string, is bool) bool {
					hit := is && method == c.method && (method == "PUT" || strings.HasSuffix(path, big))
					if hit {
						stalled <- struct{}{}
					}
					return hit
				}, of), registrytest.Fault{Hang: true})
				out := t.TempDir()
				dst := map[string]string{
					"registry": reg.Host() + "/lazy:1", "layout": "oci:" + filepath.Join(out, "dir"), "archive": "oci-archive:" + filepath.Join(out, "a.tar"),
				}[kind]
				cmd := command(t, "convert", reg.Host()+"/app:1", dst)
				tmp := cmd.Env[len(cmd.Env)-2]
				// The tests may run under nohup, and what is ignored stays so in children.
				cmd.Args = append([]string{"env", "--default-signal", cmd.Path}, cmd.Args[1:]...)
				var err error
				if cmd.Path, err = exec.LookPath("env"); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-stalled:
				case <-time.After(time.Minute):
					cmd.Process.Kill()
					cmd.Wait()
					t.Fatal("conversion did not get to the request")
				}
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(c.signal) {
					t.Errorf("process ended with %v, want exit code %d", err, 128+int(c.signal))
				}
				if _, _, ok := reg.Manifest("lazy", "1"); ok {
					t.Error("registry has the tag")
				}
				noneLeft(t, strings.TrimPrefix(tmp, "TMPDIR="))
				noneLeft(t, out)
			})
		}
	}
}
