package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/fs/index/indextest"
)

// manifest names the function of w's image as the CRI plugin does, and returns the
// name.
func (w *world) manifest() string {
	d := digest.FromString("manifest").String()
	for _, l := range w.labels {
		l[manifestLabel] = d
	}
	return d
}

// placed waits until d has a place in a function whose blocks it knows.
func (d *daemon) placed(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, in := d.fleet.client.Place(name)
		d.fleet.mu.Lock()
		fn := d.fleet.functions[name]
		known := fn != nil && fn.made
		d.fleet.mu.Unlock()
		if in && known {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("placed %t, blocks known %t", in, known)
		}
	}
}

// A daemon that starts again gives others what it has stored, before anything is
// mounted on its VM.
func TestStoredBlocksAreServedAfterARestart(t *testing.T) {
	w := newWorld(t)
	name := w.manifest()
	at := coordinate(t, coordinator.Options{})
	root, conf := t.TempDir(), w.inTree(t, "one", at)
	one := start(t, root, conf)
	one.pulled(t, w.labels)
	want := overlay(t, topFirst(w.dirs)...)
	indextest.Compare(t, want, overlay(t, one.mount(t, "container", w.labels)), likeUnpacked)
	one.Release(t.Context(), "container")
	one.stop()
	one = start(t, root, conf)
	if err := one.Retain(t.Context(), w.labels); err != nil { // as the snapshotter does at its start
		t.Fatal(err)
	}
	one.placed(t, name)
	before := blobRequests(w)
	c := w.inTree(t, "two", at)
	c.Tree.Strict = true
	two := start(t, t.TempDir(), c)
	two.pulled(t, w.labels)
	indextest.Compare(t, want, overlay(t, two.mount(t, "container", w.labels)), likeUnpacked)
	if sent, _ := one.fleet.relay.Relayed(); sent == 0 {
		t.Error("nothing was relayed")
	}
	t.Logf("the registry was asked %d times", blobRequests(w)-before)
	// What has gone meanwhile is left.
	if err := one.Retain(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if n := len(one.fleet.client.Functions()); n != 0 {
		t.Errorf("in %d functions without a layer", n)
	}
}

// PN-11: in a strict fleet a VM without a place does not read from the registry, and
// says why; as a root it does.
func TestPN11_Strict(t *testing.T) {
	w := newWorld(t)
	w.manifest()
	c := w.inTree(t, "alone", "127.0.0.1:1")
	c.Tree.Strict, c.Tree.JoinTimeout = true, c.Tree.JoinTimeout/1000
	d := start(t, t.TempDir(), c)
	d.pulled(t, w.labels)
	before := blobRequests(w)
	_, err := d.Mount(t.Context(), "container", w.labels, nil)
	if err == nil || !strings.Contains(err.Error(), "tree.strict") || !strings.Contains(err.Error(), "no place") {
		t.Errorf("without a coordinator: %v", err)
	}
	if n := blobRequests(w) - before; n != 0 {
		t.Errorf("the registry was asked %d times", n)
	}
	c = w.inTree(t, "root", coordinate(t, coordinator.Options{}))
	c.Tree.Strict = true
	root := start(t, t.TempDir(), c)
	root.pulled(t, w.labels)
	indextest.Compare(t, overlay(t, topFirst(w.dirs)...), overlay(t, root.mount(t, "container", w.labels)), likeUnpacked)
}

// A coordinator that asks VMs for certificates gets that of the configuration.
func TestCertificateForTheCoordinator(t *testing.T) {
	w := newWorld(t)
	ours, others := newAuthority(t), newAuthority(t)
	at := coordinateTLS(t, ours, coordinator.Options{})
	for name, c := range map[string]struct {
		ca, pair string
		joins    bool
	}{
		"good":                             {ours.file("ca"), ours.leaf("vm", time.Hour), true},
		"no certificate":                   {ours.file("ca"), "", false},
		"expired":                          {ours.file("ca"), ours.leaf("old", -time.Minute), false},
		"of another authority":             {ours.file("ca"), others.leaf("vm", time.Hour), false},
		"coordinator of another authority": {others.file("ca"), ours.leaf("vm", time.Hour), false},
		"plain":                            {"", "", false},
	} {
		conf := w.inTree(t, "vm", at)
		conf.Tree.JoinTimeout /= 60 // a second, if nobody answers
		conf.Tree.CA = c.ca
		if c.pair != "" {
			conf.Tree.Certificate, conf.Tree.Key = c.pair+".pem", c.pair+".key"
		}
		d := start(t, t.TempDir(), conf)
		_, err := d.fleet.client.Join(t.Context(), "f")
		for end := time.Now().Add(time.Minute); c.joins && err != nil && time.Now().Before(end); {
			_, err = d.fleet.client.Join(t.Context(), "f")
		}
		if c.joins != (err == nil) {
			t.Errorf("%s: joined %t: %v", name, err == nil, err)
		}
		if err != nil && !errdefs.IsUnavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
		d.stop()
	}
	// A certificate that is renewed needs no restart, one that is missing stops it.
	conf := w.inTree(t, "vm", at)
	conf.Tree.CA, conf.Tree.Certificate, conf.Tree.Key = ours.file("ca"), filepath.Join(t.TempDir(), "none"), ours.file("ca")
	if n, err := Open(t.Context(), t.TempDir(), conf, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
		n.Close()
	}
}
