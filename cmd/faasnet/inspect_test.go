package main

import (
	"archive/tar"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestInspectReadsRanges(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	cs := newStore(t)
	push(t, reg, "app", "1", cs, smallImage(t, cs))
	ref := reg.Host() + "/lazy:1"
	faasnet(t, 0, "convert", "--block-size", "4096", reg.Host()+"/app:1", ref)
	reg.Forget()

	out, _ := faasnet(t, 0, "inspect", "--json", ref)
	v := decode[imageView](t, out)
	if !v.Lazy || len(v.Layers) != 3 || v.Layers[0].Kind != "converted" || v.Layers[0].Blocks == 0 || v.Layers[2].Kind != "index" || v.Layers[2].Image == nil {
		t.Errorf("inspect says %s", out)
	}
	if out, _ := faasnet(t, 0, "inspect", "--annotations", ref); !strings.Contains(out, "containerd.io/snapshot/faasnet/version = 1") || !strings.Contains(out, "4.0 KiB") {
		t.Errorf("inspect says\n%s", out)
	}
	if out, _ := faasnet(t, 0, "inspect", "ls", ref, "/etc"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "-rw-r--r--   1     0     0    1600000 2001-09-09T01:46:40Z big\n") {
		t.Errorf("ls says\n%s", out)
	}
	if out, _ := faasnet(t, 0, "inspect", "ls", "-R", ref); !strings.Contains(out, " etc\n") || !strings.Contains(out, " etc/b\n") {
		t.Errorf("ls -R says\n%s", out)
	}
	if out, _ := faasnet(t, 0, "inspect", "ls", "--layer", "1", ref, "etc"); strings.Contains(out, "big") || !strings.Contains(out, " b\n") {
		t.Errorf("ls --layer 1 says\n%s", out)
	}
	if out, _ := faasnet(t, 0, "inspect", "cat", ref, "etc/b"); out != "B" {
		t.Errorf("cat says %q", out)
	}
	faasnet(t, exitError, "inspect", "cat", ref, "etc/none")
	faasnet(t, exitError, "inspect", "cat", ref, "etc")
	for _, r := range reg.Requests() {
		if strings.Contains(r.Path, "/blobs/") && r.Header.Get("Range") == "" && r.Method == http.MethodGet {
			for _, l := range v.Layers {
				if strings.HasSuffix(r.Path, l.Digest.String()) {
					t.Errorf("all of a layer was read: %s", r.Path)
				}
			}
		}
	}
}

func TestVerifyCommand(t *testing.T) {
	cs := newStore(t)
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	put(t, cs, smallImage(t, cs), "oci:"+src)
	faasnet(t, 0, "convert", "oci:"+src, "oci:"+dst)
	if out, _ := faasnet(t, 0, "verify", dst); out != "ok: 3 layers\n" {
		t.Errorf("verify says %q", out)
	}
	out, _ := faasnet(t, 0, "inspect", "--json", dst)
	l := decode[imageView](t, out).Layers[0]
	blob := filepath.Join(dst, "blobs/sha256", l.Digest.Encoded())

	// The file of one layer alone.
	faasnet(t, 0, "verify", blob)
	if out, _ := faasnet(t, 0, "inspect", "cat", blob, "etc/a"); out != "A" {
		t.Errorf("cat of the layer file says %q", out)
	}
	b, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(blob, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dst, blob} {
		if out, _ := faasnet(t, exitError, "verify", name); !strings.Contains(out, "block 0") {
			t.Errorf("verify of a damaged image says %q", out)
		}
	}
	if _, stderr := faasnet(t, exitError, "verify", src); !strings.Contains(stderr, "1 problem:") {
		t.Errorf("verify of a plain image says %q", stderr)
	}
}

func TestArchives(t *testing.T) {
	cs := newStore(t)
	dir := t.TempDir()
	plain, lazy := filepath.Join(dir, "plain.tar"), filepath.Join(dir, "lazy.tar")
	put(t, cs, smallImage(t, cs), "oci-archive:"+plain+":docker.io/library/app:1")
	faasnet(t, 0, "convert", plain, lazy+":docker.io/library/app:lazy")
	faasnet(t, 0, "verify", "docker-archive:"+lazy)
	if out, _ := faasnet(t, 0, "inspect", "cat", lazy+":lazy", "etc/b"); out != "B" {
		t.Errorf("cat says %q", out)
	}
	// The archive that is written is a source for reuse, too.
	out, _ := faasnet(t, 0, "convert", "--json", plain, lazy+":docker.io/library/app:lazy")
	if s := decode[summary](t, out); s.Reused != 2 {
		t.Errorf("second conversion says %s, want 2 layers reused", out)
	}
}

// What an image brings goes to a terminal without its control characters.
func TestInspectHostileNames(t *testing.T) {
	const attack = "\x1b]0;pwned\a\n-rwsr-xr-x forged"
	cs := newStore(t)
	d := imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{
		Tar: new(indextest.Tar).Add(
			indextest.Header{Name: "f" + attack, Body: "x"},
			indextest.Header{Name: "l", Link: attack, Type: tar.TypeSymlink},
			indextest.Header{Name: "日本語 \"quoted\"", Body: "x"},
		).Bytes(),
		Annotations: map[string]string{"note": attack},
	}}})
	reg := registrytest.New(t, registrytest.Options{})
	push(t, reg, "app", "1", cs, d)
	faasnet(t, 0, "convert", reg.Host()+"/app:1", reg.Host()+"/app:lazy")
	for _, args := range [][]string{{"ls"}, {"ls", "-R"}, {"--annotations"}} {
		out, _ := faasnet(t, 0, append(append([]string{"inspect"}, args...), reg.Host()+"/app:lazy")...)
		if strings.ContainsAny(out, "\x1b\a") || strings.Contains(out, "\n-rwsr-xr-x forged") || !strings.Contains(out, `\x1b]0;pwned\a\n-rwsr-xr-x forged`) {
			t.Errorf("%v prints %q", args, out)
		}
	}
}
