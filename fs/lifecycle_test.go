package fs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/index"
)

func TestMountWaitsForRun(t *testing.T) {
	f, err := New(t.Context(), t.TempDir(), Options{Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, tree := newLayer(t, entry{name: "f", data: random(1, 1000)})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := f.Mount(ctx, image(t, []*index.Tree{tree}, l), []File{l}); !errdefs.IsUnavailable(err) {
		t.Errorf("mount before Run: %v, want unavailable", err)
	}
}

func TestMountRefuses(t *testing.T) {
	f := newFS(t, Options{})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 100<<10)})
	img := image(t, []*index.Tree{tree}, l)

	if _, err := f.Mount(t.Context(), img[:700], []File{l}); err == nil {
		t.Error("half an image was mounted")
	}
	short, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	if err := short.Truncate(l.size - 512); err != nil {
		t.Fatal(err)
	}
	lying := &layer{file: short, size: l.size}
	lying.local.Store(true)
	if _, err := f.Mount(t.Context(), img, []File{lying}); !errdefs.IsDataLoss(err) {
		t.Errorf("mount of a local file that is too short: %v, want data loss", err)
	}
	if err := mount(t, f, []*index.Tree{tree}, l).Close(); err != nil { // good, and known to be good from now on
		t.Fatal(err)
	}
	if _, err := f.Mount(t.Context(), img, []File{&memory{make([]byte, 4096)}}); err == nil {
		t.Error("a known image was mounted on a device that is too short for it")
	}
	if f.InUse() {
		t.Error("failed mounts count as open")
	}
	for _, d := range []string{imagesDir, mountsDir, layersDir} {
		if left, err := os.ReadDir(filepath.Join(f.dir, d)); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", d, left, err)
		}
	}
}

func TestClosedWhileReading(t *testing.T) {
	f := newFS(t, Options{ReadTimeout: time.Hour, Grace: time.Hour})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 100<<10)})
	stuck := make(chan struct{}, 100)
	l.onView(func(ctx context.Context, _ int64, _ int) (Span, error) {
		stuck <- struct{}{}
		<-ctx.Done()
		return Span{}, context.Cause(ctx)
	})
	m := mount(t, f, []*index.Tree{tree}, l)
	result := make(chan error)
	go func() {
		_, err := os.ReadFile(filepath.Join(m.Dir(), "f"))
		result <- err
	}()
	receive(t, stuck)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := receive(t, result); err == nil {
		t.Error("read of a closed file system succeeded")
	}
	if _, err := f.Mount(t.Context(), image(t, []*index.Tree{tree}, l), []File{l}); !errdefs.IsUnavailable(err) {
		t.Errorf("mount after close: %v", err)
	}
}

// TestCloseDespiteCopiedNamespace: a process with a copy of our mounts keeps the
// FUSE connection alive; Close must not wait for it.
func TestCloseDespiteCopiedNamespace(t *testing.T) {
	f := newFS(t, Options{Grace: 50 * time.Millisecond})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 1000)})
	mount(t, f, []*index.Tree{tree}, l)
	// The copy is private, so that the unmount does not reach it.
	holder := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { holder.Process.Kill(); holder.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- f.Close() }()
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	if n := counter(t, f.metrics.aborts); n != 1 {
		t.Errorf("%v connections aborted, want 1: the copy did not hold the mount", n)
	}
}

// childDir makes this test binary a daemon that mounts one lazy and one local
// image in the directory it names, and waits to be killed.
const childDir = "FS_TEST_CHILD_DIR"

func TestDaemonChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	f, err := New(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	go f.Run(context.Background())
	data := random(1, 8<<20)
	lazy, tl := newLayer(t, entry{name: "f", data: data})
	local, tc := newLayer(t, entry{name: "f", data: data})
	local.local.Store(true)
	os.Stdout.WriteString("mounted " + mount(t, f, []*index.Tree{tl}, lazy).Dir() + " " + mount(t, f, []*index.Tree{tc}, local).Dir() + "\n")
	select {}
}

func TestKilledDaemon(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	daemon := exec.Command(os.Args[0], "-test.run=^TestDaemonChild$", "-test.v")
	daemon.Env = append(os.Environ(), childDir+"="+state, "TMPDIR="+dir)
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			daemon.Process.Kill()
			daemon.Wait()
		}
		killed = true
	}
	t.Cleanup(func() {
		kill()
		Recover(state)
	})
	lazy, local := mountedDirs(t, out)

	// A container on each: an overlay.
	roots := map[string]string{lazy: filepath.Join(dir, "lazy"), local: filepath.Join(dir, "local")}
	for lower, root := range roots {
		empty := root + "-empty"
		if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(empty, 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("overlay", root, "overlay", unix.MS_RDONLY, "lowerdir="+lower+":"+empty); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	}
	data := random(1, 8<<20)
	fd := open(t, filepath.Join(roots[lazy], "f"), 0)
	buf := make([]byte, 64<<10)
	if n, err := unix.Pread(fd, buf, 0); err != nil || n != len(buf) || !bytes.Equal(buf, data[:n]) {
		t.Fatalf("before the kill: %d bytes, %v", n, err)
	}
	kill()
	for off := int64(0); off < int64(len(data)); off += int64(len(buf)) { // right from the cache or an error, never zeros
		if n, err := unix.Pread(fd, buf, off); err == nil && !bytes.Equal(buf[:n], data[off:off+int64(n)]) {
			t.Fatalf("after the kill: wrong bytes at %d", off)
		} else if err == nil && off > 1<<20 {
			t.Errorf("after the kill: bytes at %d that nobody read before", off)
		}
	}
	if got, err := os.ReadFile(filepath.Join(roots[local], "f")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("after the kill the local image differs, %v", err)
	}

	probe := filepath.Join(state, "probe-killed") // as if it had been killed in its trial
	for _, d := range []string{imagesDir, mountsDir + "/x"} {
		if err := os.MkdirAll(filepath.Join(probe, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(probe, imagesDir, "image"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	t.Run("RR-01 stale mounts are detached and named", func(t *testing.T) {
		stale, err := Recover(state)
		if err != nil {
			t.Fatal(err)
		}
		if len(stale) != 2 {
			t.Fatalf("stale mounts %v, want 2", stale)
		}
		for _, s := range stale {
			if s.Lazy != (s.Dir == lazy) || len(s.Users) != 1 || s.Users[0] != roots[s.Dir] {
				t.Errorf("stale mount %+v", s)
			}
		}
		for _, dir := range []string{probe, lazy, local} {
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there, %v", dir, err)
			}
		}
		if again, err := Recover(state); err != nil || len(again) > 0 {
			t.Errorf("second Recover: %v, %v", again, err)
		}
		if got, err := os.ReadFile(filepath.Join(roots[local], "f")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("after Recover the local image differs, %v", err)
		}
	})
	f, err := New(t.Context(), state, Options{Grace: time.Second})
	if err != nil {
		t.Fatalf("new daemon: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func mountedDirs(t *testing.T, out interface{ Read([]byte) (int, error) }) (lazy, local string) {
	t.Helper()
	var said strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		_, rest, found := strings.Cut(said.String(), "mounted ")
		line, _, whole := strings.Cut(rest, "\n")
		if found && whole {
			lazy, local, _ = strings.Cut(line, " ")
			return lazy, local
		}
		if err != nil {
			t.Fatalf("daemon said %q, %v", said.String(), err)
		}
	}
}

// TestCD08_FewThreads mounts and reads from the process that serves the mounts.
func TestCD08_FewThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		f := newFS(t, Options{})
		data := random(1, 300<<10)
		var wg sync.WaitGroup
		for i := range 60 {
			l, tree := newLayer(t, entry{name: "f", data: data})
			img := image(t, []*index.Tree{tree}, l)
			wg.Go(func() {
				m, err := f.Mount(t.Context(), img, []File{l})
				if err != nil {
					t.Errorf("mount %d: %v", i, err)
					return
				}
				if got, err := os.ReadFile(filepath.Join(m.Dir(), "f")); err != nil || !bytes.Equal(got, data) {
					t.Errorf("mount %d differs, %v", i, err)
				}
				if i%10 == 0 {
					exec.Command("true").Run() // a helper of the daemon
				}
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// FU-12: descriptors come back, whatever was open.
func TestFU12_DescriptorsReturn(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	f := newFS(t, Options{})
	l, tree := newLayer(t, entry{name: "f", data: random(1, 300<<10)})
	round := func() {
		m := mount(t, f, []*index.Tree{tree}, l)
		if _, err := os.ReadFile(filepath.Join(m.Dir(), "f")); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	round()
	before := count()
	for range 100 {
		round()
	}
	if after := count(); after > before+5 {
		t.Errorf("%d descriptors after 100 mounts, %d before", after, before)
	}
	if n := len(f.flat.files.byID); n != 0 {
		t.Errorf("%d files are still served", n)
	}
}
