package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestConvertInRegistry(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	cs := newStore(t)
	push(t, reg, "src/app", "1", cs, smallImage(t, cs))
	out, _ := faasnet(t, 0, "convert", "--json", reg.Host()+"/src/app:1", reg.Host()+"/dst/app:1")
	s := decode[summary](t, out)
	if len(s.Layers) != 2 || s.Reused != 0 || s.Layers[0].Blocks != 4 || s.BytesIn == 0 || s.BytesOut == 0 {
		t.Errorf("summary is %s", out)
	}
	if d, _, ok := reg.Manifest("dst/app", "1"); !ok || d != s.Digest {
		t.Errorf("tag is %v, summary says %v", d, s.Digest)
	}
	var last registrytest.Request
	for _, r := range reg.Requests() {
		if r.Method == http.MethodPut {
			last = r
		}
	}
	if !strings.HasSuffix(last.Path, "/dst/app/manifests/1") {
		t.Errorf("the last thing written is %s, want the tag", last.Path)
	}
	faasnet(t, 0, "verify", reg.Host()+"/dst/app:1")

	t.Run("again", func(t *testing.T) {
		reg.Forget()
		out, _ := faasnet(t, 0, "convert", "--json", reg.Host()+"/src/app:1", reg.Host()+"/dst/app:1")
		if again := decode[summary](t, out); again.Reused != 2 || again.Digest != s.Digest {
			t.Errorf("summary is %s, want 2 layers reused and digest %s", out, s.Digest)
		}
		for _, r := range reg.Requests() {
			for _, l := range s.Layers {
				if r.Method == http.MethodGet && strings.HasSuffix(r.Path, l.Source.String()) {
					t.Errorf("source layer was read: %s", r.Path)
				}
				if r.Method == http.MethodGet && strings.HasSuffix(r.Path, l.Target.String()) && r.Header.Get("Range") == "" {
					t.Errorf("all of a converted layer was read: %s", r.Path)
				}
			}
		}
	})
	t.Run("into another repository", func(t *testing.T) {
		reg.Forget()
		out, _ := faasnet(t, 0, "convert", "--json", "--reuse", reg.Host()+"/dst/app:1", reg.Host()+"/src/app:1", reg.Host()+"/third/app:1")
		if again := decode[summary](t, out); again.Reused != 2 || again.Digest != s.Digest {
			t.Errorf("summary is %s, want 2 layers reused and digest %s", out, s.Digest)
		}
		mounts := 0
		for _, r := range reg.Requests() {
			if r.Method == http.MethodPost && strings.Contains(r.Query, "from=dst/app") && r.Status == 201 {
				mounts++
			}
		}
		if mounts != 2 {
			t.Errorf("%d layers were mounted from the other repository, want 2", mounts)
		}
	})
}

func TestCF14_OnePlatformFromRegistry(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	cs := newStore(t)
	image := func(platform string) ocispec.Descriptor {
		p := platforms.MustParse(platform)
		return imagetest.Put(t, cs, imagetest.Image{Platform: p, Layers: []imagetest.Layer{{Tar: files(map[string]string{"arch": platform})}}})
	}
	amd64, arm64, s390x := image("linux/amd64"), image("linux/arm64/v8"), image("linux/s390x")
	push(t, reg, "app", "1", cs, imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, imagetest.Index(t, cs, ocispec.MediaTypeImageIndex, amd64, arm64), s390x))
	faasnet(t, 0, "convert", "--platform", "linux/arm64", reg.Host()+"/app:1", reg.Host()+"/app:lazy")
	for _, d := range []ocispec.Descriptor{amd64, s390x} {
		layer := imagetest.Read[ocispec.Manifest](t, cs, d).Layers[0].Digest
		for _, r := range reg.Requests() {
			if r.Method == http.MethodGet && strings.HasSuffix(r.Path, layer.String()) {
				t.Errorf("layer of %s was read", platforms.Format(*d.Platform))
			}
		}
	}
	out, _ := faasnet(t, 0, "inspect", "cat", reg.Host()+"/app:lazy", "arch")
	if out != "linux/arm64/v8" {
		t.Errorf("file in the converted image has %q", out)
	}
	faasnet(t, 0, "convert", "--all-platforms", reg.Host()+"/app:1", reg.Host()+"/app:lazy")
	for _, p := range []string{"linux/amd64", "linux/arm64/v8", "linux/s390x"} {
		if out, _ := faasnet(t, 0, "inspect", "cat", "--platform", p, reg.Host()+"/app:lazy", "arch"); out != p {
			t.Errorf("%s: file in the converted image has %q", p, out)
		}
	}
}

func TestCF16_ShortLayer(t *testing.T) {
	cs := newStore(t)
	src := smallImage(t, cs)
	dir := filepath.Join(t.TempDir(), "src")
	put(t, cs, src, "oci:"+dir)
	l := imagetest.Read[ocispec.Manifest](t, cs, src).Layers[0]
	blob := filepath.Join(dir, "blobs/sha256", l.Digest.Encoded())
	if err := os.Truncate(blob, l.Size*6/10); err != nil {
		t.Fatal(err)
	}
	reg := registrytest.New(t, registrytest.Options{})
	for _, dst := range []string{reg.Host() + "/app:1", "oci:" + filepath.Join(t.TempDir(), "dst"), "oci-archive:" + filepath.Join(t.TempDir(), "dst.tar")} {
		_, stderr := faasnet(t, exitError, "convert", "oci:"+dir, dst)
		if !strings.Contains(stderr, "short layer: got ") {
			t.Errorf("%s: error is %q", dst, stderr)
		}
		if path, ok := strings.CutPrefix(dst, "oci"); ok {
			_, path, _ = strings.Cut(path, ":")
			noneLeft(t, filepath.Dir(path))
		}
	}
	if _, _, ok := reg.Manifest("app", "1"); ok {
		t.Error("registry has the tag")
	}
}

func TestCF03_NothingPushed(t *testing.T) {
	cs := newStore(t)
	reg := registrytest.New(t, registrytest.Options{})
	push(t, reg, "app", "1", cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: linkFirst()}}}))
	_, stderr := faasnet(t, exitError, "convert", reg.Host()+"/app:1", reg.Host()+"/lazy:1")
	if !strings.Contains(stderr, "b/c/h2") || !strings.Contains(stderr, "a/t") {
		t.Errorf("error is %q, want one that names entry and target", stderr)
	}
	for _, r := range reg.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("registry was asked to %s %s", r.Method, r.Path)
		}
	}
}

func TestTargetsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dst := range []string{
		"b@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
		"oci:" + dir,
		"oci-archive:" + filepath.Join(dir, "none", "a.tar"),
	} {
		// The source is not even looked for.
		if _, stderr := faasnet(t, exitError, "convert", "oci:/none", dst); strings.Contains(stderr, "oci:/none") {
			t.Errorf("%s: error is %q", dst, stderr)
		}
	}
	// What is no archive is replaced by one.
	cs := newStore(t)
	src, file := filepath.Join(t.TempDir(), "src"), filepath.Join(dir, "file")
	put(t, cs, smallImage(t, cs), "oci:"+src)
	faasnet(t, 0, "convert", src, "oci-archive:"+file)
	faasnet(t, 0, "verify", file)
}

// A registry may deny to say whether a repository is there.
func TestNewRepositoryThatIsDenied(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	cs := newStore(t)
	push(t, reg, "app", "1", cs, smallImage(t, cs))
	reg.Next(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/new/manifests/") }, registrytest.Fault{Status: http.StatusForbidden})
	faasnet(t, 0, "convert", reg.Host()+"/app:1", reg.Host()+"/new:1")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"convert", "oci:/a"},
		{"convert", "UPPER", "b"},
		{"convert", "--block-size", "1000", "oci:/a", "oci:/b"},
		{"convert", "--level", "11", "oci:/a", "oci:/b"},
		{"convert", "--platform", "a/b/c/d", "oci:/a", "oci:/b"},
		{"convert", "--platform", "linux/amd64", "--all-platforms", "oci:/a", "oci:/b"},
		{"convert", "--no-such-flag"},
		{"inspect"},
		{"inspect", "ls", "--no-such-flag"},
		{"nonsense"},
		{"--log-level", "nonsense", "version"},
		{"verify"},
		{"pull", "oci:/a"},
	} {
		faasnet(t, exitUsage, args...)
	}
	if out, _ := faasnet(t, 0, "version"); !strings.Contains(out, "image format 1") {
		t.Errorf("version is %q", out)
	}
	for _, args := range [][]string{{"--help"}, {"convert", "--help"}, {"inspect", "--help"}, {"inspect", "ls", "--help"}, {"verify", "--help"}, {"pull", "--help"}} {
		if out, _ := faasnet(t, 0, args...); !strings.Contains(out, "USAGE") {
			t.Errorf("%s: %q", args, out)
		}
	}
}

// fullDisk is a standard output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestSummaryThatCannotBeWritten(t *testing.T) {
	cs := newStore(t)
	dir := t.TempDir()
	put(t, cs, smallImage(t, cs), "oci:"+filepath.Join(dir, "src:1"))
	for _, flags := range [][]string{{}, {"--json"}} {
		args := append([]string{"faasnet", "convert", "-q"}, flags...)
		var errs bytes.Buffer
		if code := run(append(args, "oci:"+filepath.Join(dir, "src:1"), "oci:"+filepath.Join(dir, "dst:1")), fullDisk{}, &errs); code != exitError {
			t.Errorf("%q: exit code %d, want %d: %s", flags, code, exitError, &errs)
		}
	}
}
