package lab

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/script/images"
)

// newLab makes a lab that needs only containerd.
func newLab(t *testing.T) *Lab {
	t.Helper()
	dir, err := find(inDir, places("FAASNET_TOOLS", ".tools/bin"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Tools{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.Dir()); !os.IsNotExist(err) {
			t.Errorf("%s is still there", l.Dir())
		}
		if points, err := Mounts(l.Dir()); err != nil || len(points) > 0 {
			t.Errorf("mounts stay: %v, %v", points, err)
		}
		if pids, err := l.group.pids(); err != nil || len(pids) > 0 {
			t.Errorf("processes stay: %v, %v", pids, err)
		}
	})
	return l
}

func layout(t *testing.T, name string) string {
	t.Helper()
	cache, err := images.Cache()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := images.Build(t.Context(), cache, name, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func try[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPullAndRun(t *testing.T) {
	for _, release := range []Release{Current, Debian} {
		t.Run(string(release), func(t *testing.T) {
			l := newLab(t)
			h := try[*Host](t)(l.Host("vm", nil))
			r := try[*Registry](t)(h.Registry(t.Context(), ""))
			ref := try[string](t)(r.Push(t.Context(), layout(t, "a"), "a:1"))
			c := try[*Containerd](t)(h.Containerd(t.Context(), release, try[string](t)(r.HostsDir()), nil))
			if err := c.Pull(t.Context(), "overlayfs", ref); err != nil {
				t.Fatal(err)
			}
			if err := c.RunReady(t.Context(), "overlayfs", ref); err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context(), "overlayfs", ref, func(string) bool { return false }); err == nil {
				t.Error("a function that is never ready is no error")
			}
			// The line of its last moment may be lost: its end tells.
			lines := 0
			if err := c.Run(t.Context(), "overlayfs", ref, func(line string) bool { lines++; return lines > 1 && line == Ready }); err != nil || lines != 2 {
				t.Errorf("a function whose line was lost: %v, %d lines", err, lines)
			}
			if out := try[string](t)(c.Exec(t.Context(), "overlayfs", ref, "/bin/sh", "-c", "echo hello")); out != "hello\n" {
				t.Errorf("printed %q", out)
			}
			if _, err := c.Exec(t.Context(), "overlayfs", ref, "/bin/false"); err == nil {
				t.Error("exit status 1 is no error")
			}
			created, release, err := c.Created(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			begin := time.Now()
			try[string](t)(c.Exec(t.Context(), "overlayfs", ref, "/bin/true"))
			if at, ok := <-created; !ok || at.Before(begin) || at.After(time.Now()) {
				t.Errorf("a container was made at %v, %v", at, ok)
			}
			if _, ok := <-created; ok {
				t.Error("told twice of one container")
			}
			if cpu := try[time.Duration](t)(h.CPU()); cpu <= 0 {
				t.Errorf("CPU time is %v", cpu)
			}
		})
	}
}

// Who waits for a container waits no longer when nobody will tell it.
func TestCreatedEnds(t *testing.T) {
	l := newLab(t)
	c := try[*Containerd](t)(try[*Host](t)(l.Host("vm", nil)).Containerd(t.Context(), Current, "", nil))
	ctx, cancel := context.WithCancel(t.Context())
	created, release, err := c.Created(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	cancel()
	if at, ok := <-created; ok {
		t.Errorf("a container was made at %v", at)
	}
}

// What Fetch copies from a registry can be pushed again and is the same image.
func TestFetch(t *testing.T) {
	l := newLab(t)
	h := try[*Host](t)(l.Host("vm", nil))
	r := try[*Registry](t)(h.Registry(t.Context(), ""))
	from := layout(t, "a")
	ref := try[string](t)(r.Push(t.Context(), from, "a:1"))
	to := filepath.Join(t.TempDir(), "copy")
	if err := Fetch(t.Context(), ref, to); err != nil {
		t.Fatal(err)
	}
	try[string](t)(r.Push(t.Context(), to, "copy:1"))
	blobs := func(dir string) (names []string) {
		for _, e := range try[[]os.DirEntry](t)(os.ReadDir(filepath.Join(dir, "blobs", "sha256"))) {
			names = append(names, e.Name())
		}
		return names
	}
	if want, got := blobs(from), blobs(to); !slices.Equal(want, got) {
		t.Errorf("fetched %v, the image has %v", got, want)
	}
	if err := Fetch(t.Context(), r.Addr+"/none:1", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("an image that is not there was fetched")
	}
}

// A container that runs when the lab ends goes with it, and so do its mounts
// and its shim's socket.
func TestCloseEndsContainers(t *testing.T) {
	l := newLab(t)
	h := try[*Host](t)(l.Host("vm", nil))
	r := try[*Registry](t)(h.Registry(t.Context(), ""))
	ref := try[string](t)(r.Push(t.Context(), layout(t, "a"), "a:1"))
	c := try[*Containerd](t)(h.Containerd(t.Context(), Current, try[string](t)(r.HostsDir()), nil))
	if err := c.Pull(t.Context(), "overlayfs", ref); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "overlayfs", ref, "/bin/sh", "-c", "touch /started; while :; do :; done")
		ended <- err
	}()
	if err := until(t.Context(), "container", func() bool {
		pids, err := h.Pids()
		points, _ := Mounts(l.Dir())
		return err == nil && len(points) > 0 && len(pids) >= 5 // registry, containerd, ctr, shim, container
	}); err != nil {
		t.Fatal(err)
	}
	sockets := shimSockets(l.Dir())
	if len(sockets) == 0 {
		t.Error("the container has no shim socket")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the container ended well")
	}
	for _, sock := range sockets {
		if _, err := os.Stat(sock); !os.IsNotExist(err) {
			t.Errorf("%s is still there", sock)
		}
	}
}

func TestLinksAreShapedAndCounted(t *testing.T) {
	l := newLab(t)
	hub := try[*Hub](t)(l.Hub())
	filler := try[*Host](t)(l.Host("filler", nil))
	fill := try[*Registry](t)(filler.Registry(t.Context(), ""))
	try[string](t)(fill.Push(t.Context(), layout(t, "a"), "a:1"))
	if err := fill.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	origin := try[*Host](t)(l.Host("origin", try[*Net](t)(hub.Link("100mbit"))))
	r := try[*Registry](t)(origin.Registry(t.Context(), filler.Dir()+"/registry"))
	vm := try[*Host](t)(l.Host("vm", try[*Net](t)(hub.Link("100mbit"))))
	c := try[*Containerd](t)(vm.Containerd(t.Context(), Current, try[string](t)(r.HostsDir()), nil))
	before := try[int64](t)(origin.net.Sent())
	traffics := try[*Traffics](t)(hub.Traffics())
	t.Cleanup(func() {
		if err := traffics.Close(); err != nil {
			t.Error(err)
		}
	})
	start := try[[]Traffic](t)(traffics.Read(vm.net, origin.net))
	if err := c.Pull(t.Context(), "overlayfs", r.Addr+"/a:1"); err != nil {
		t.Fatal(err)
	}
	if sent := try[int64](t)(origin.net.Sent()) - before; sent < 1e6 || sent > 2e6 {
		t.Errorf("registry sent %d bytes for an image of 1.1 MB", sent)
	}
	end := try[[]Traffic](t)(traffics.Read(vm.net, origin.net))
	if got, sent := end[0].Received-start[0].Received, end[1].Sent-start[1].Sent; got < 1e6 || got > 2e6 || sent < 1e6 {
		t.Errorf("followed, the VM received %d bytes and the registry sent %d", got, sent)
	}
	out := try[string](t)(vm.Run(t.Context(), "tc", "qdisc", "show", "dev", "eth0"))
	if !strings.Contains(out, "tbf") || !strings.Contains(out, "100Mbit") {
		t.Errorf("queue of the link is %s", out)
	}
}

func TestSweepRemovesLabsOfDeadProcesses(t *testing.T) {
	l := newLab(t)
	h := try[*Host](t)(l.Host("vm", nil))
	p := try[*Proc](t)(h.Start("sleeper", "sleep", "600"))
	dead := try[*Proc](t)(h.Start("dead", "true"))
	<-dead.done
	if err := os.WriteFile(l.Dir()+"/pid", []byte("999999999"), 0o644); err != nil {
		t.Fatal(err)
	}
	orphan := group(filepath.Base(l.Dir()) + "-orphan") // its directory is gone already
	if _, err := orphan.leaf(); err != nil {
		t.Fatal(err)
	}
	if err := sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(orphan.dir()); !os.IsNotExist(err) {
		t.Error("a group without a lab is still there")
	}
	<-p.done
	if _, err := os.Stat(l.Dir()); !os.IsNotExist(err) {
		t.Error("the dead lab is still there")
	}
}

func TestMountsOfAType(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	for fsType, want := range map[string]int{"tmpfs": 1, "tmp": 1, "fuse": 0} {
		if points, err := MountsOf(dir, fsType); err != nil || len(points) != want {
			t.Errorf("%s: %v, %v", fsType, points, err)
		}
	}
}
