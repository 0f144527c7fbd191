package node

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// The cases of docs/cases.md that are about all of one VM.

// under gives the layers as those of an image of another name.
func (w *world) under(name string) (labels []map[string]string) {
	for _, l := range w.labels {
		l = maps.Clone(l)
		l[refLabel] = w.reg.Host() + "/" + name
		labels = append(labels, l)
	}
	return labels
}

// Two images under two names of repositories, with the same layers, and with
// manifests of their own, so that they are two functions: one VM fetches and
// stores them once, and another VM that has only the second one gets it from the first VM.
func TestPN10_TwoRepositories(t *testing.T) {
	w := newWorld(t)
	first, second := w.under(repo+":v1"), w.under(otherRepo+":v2")
	for i := range first {
		first[i][manifestLabel], second[i][manifestLabel] = digest.FromString("one").String(), digest.FromString("two").String()
	}
	at := coordinate(t, coordinator.Options{Form: "complete"}) // one root, which is the first VM
	a, b := start(t, t.TempDir(), w.inTree(t, "a", at)), start(t, t.TempDir(), w.inTree(t, "b", at))
	readAll := func(d *daemon, user string, labels []map[string]string) {
		t.Helper()
		d.pulled(t, labels)
		indextest.Compare(t, overlay(t, topFirst(w.dirs)...), overlay(t, d.mount(t, user, labels)), likeUnpacked)
	}
	readAll(a, "first", first)
	asked, used := blobRequests(w), a.store.Usage()
	readAll(a, "second", second)
	if n := blobRequests(w); n != asked {
		t.Errorf("%d requests for the second name, want none", n-asked)
	}
	now := a.store.Usage()
	if now.SealedBytes = used.SealedBytes; now != used { // what is sealed when is a matter of the background
		t.Errorf("the store holds %+v, with one name %+v", now, used)
	}
	eventually(t, func() bool { return len(a.fleet.client.Functions()) == 2 })
	readAll(b, "second", second)
	if sent, _ := a.fleet.relay.Relayed(); sent < used.BlockBytes*8/10 { // the rest may be hedges on a slow machine
		t.Errorf("%d bytes were relayed of %d that came under another name", sent, used.BlockBytes)
	}
}

// What nobody is yet known to use is in use: layers that are claimed and not
// yet mounted, and mounts that containerd has not reported, whatever Retain is told.
func TestGD02_RetainWhileContainersStart(t *testing.T) {
	w := newWorld(t)
	d := start(t, t.TempDir(), w.config())
	d.pulled(t, w.labels)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			live := w.labels
			if i%2 == 1 {
				live = nil // an old list, of a moment before the snapshots were committed
			}
			if err := d.Retain(t.Context(), live); err != nil {
				t.Error(err)
			}
		}
	}()
	var wg sync.WaitGroup
	for i, user := range users(20) {
		wg.Go(func() {
			dir := d.mount(t, user, w.labels)
			if i%5 == 0 {
				readFile(t, filepath.Join(dir, "big"), text(1, 3<<20+100))
			}
			readFile(t, filepath.Join(dir, "usr/bin/tool"), text(2, 700<<10))
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	w.reg.Close()
	if err := d.Retain(t.Context(), nil); err != nil {
		t.Error(err)
	}
	dropCaches(t)
	dir := d.mount(t, "user-0", w.labels)
	readFile(t, filepath.Join(dir, "big"), text(1, 3<<20+100)) // is still on disk
}

func dropCaches(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatal(err)
	}
}

// A private image, and credentials that are gone after a restart: what is here
// is read without a request, what is not fails with a few warnings, and the VM stays usable.
func TestRR05_CredentialsAreGone(t *testing.T) {
	w := newWorldOf(t, registrytest.Options{Auth: &registrytest.Auth{Users: map[string]string{"u": "p"}}},
		tarOf(indextest.Header{Name: "read", Body: text(1, 900<<10)}, indextest.Header{Name: "unread", Body: text(2, 3<<20)}))
	whole := newWorldOf(t, registrytest.Options{Auth: &registrytest.Auth{Users: map[string]string{"u": "p"}}},
		tarOf(indextest.Header{Name: "all", Body: text(3, 900<<10)}))
	c := w.config()
	c.Registry.PlainHTTP = append(c.Registry.PlainHTTP, whole.reg.Host())
	c.Registry.DockerConfig = t.TempDir()
	secret := base64.StdEncoding.EncodeToString([]byte("u:p"))
	file := fmt.Sprintf(`{"auths":{%q:{"auth":%q},%q:{"auth":%q}}}`, w.reg.Host(), secret, whole.reg.Host(), secret)
	if err := os.WriteFile(filepath.Join(c.Registry.DockerConfig, "config.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	d := start(t, root, c)
	part, all := d.mount(t, "part", w.labels), d.mount(t, "all", whole.labels)
	readFile(t, filepath.Join(part, "read"), text(1, 900<<10))
	readFile(t, filepath.Join(all, "all"), text(3, 900<<10))
	for _, user := range []string{"part", "all"} {
		if err := d.Release(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	d.stop()

	before := log.L.Logger.ReplaceHooks(logrus.LevelHooks{})
	defer log.L.Logger.ReplaceHooks(before)
	hook := logtest.NewLocal(log.L.Logger)
	c.Registry.DockerConfig = t.TempDir()
	c.Fetch.Deadline = config.Duration(time.Second)
	d = start(t, root, c)
	asked := len(whole.reg.Requests())
	part, all = d.mount(t, "part", w.labels), d.mount(t, "all", whole.labels)
	readFile(t, filepath.Join(all, "all"), text(3, 900<<10))
	if n := len(whole.reg.Requests()) - asked; n != 0 {
		t.Errorf("%d requests for an image that is all here", n)
	}
	readFile(t, filepath.Join(part, "read"), text(1, 900<<10))
	for range 3 {
		if _, err := os.ReadFile(filepath.Join(part, "unread")); !errors.Is(err, unix.EIO) {
			t.Errorf("read of what is not here: %v", err)
		}
	}
	warnings := 0
	for _, e := range hook.AllEntries() {
		if e.Level <= log.WarnLevel {
			warnings++
			t.Logf("%s %v", e.Message, e.Data)
			if strings.Contains(fmt.Sprint(e.Message, e.Data), secret) {
				t.Error("the log has the secret")
			}
		}
	}
	if warnings == 0 || warnings > 3 { // then one in 5 s
		t.Errorf("%d warnings", warnings)
	}
	d.mount(t, "another", whole.labels)
}
