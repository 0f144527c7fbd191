package snapshottertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// mounter is snapshotter.Mounter.
type mounter interface {
	Claim(ctx context.Context, labels map[string]string) error
	Mount(ctx context.Context, user string, run []map[string]string, lower []string) (dir string, err error)
	Release(ctx context.Context, user string) error
	Retain(ctx context.Context, live []map[string]string) error
}

// Subject is a Mounter under test and an image that it can mount.
type Subject struct {
	Mounter mounter
	Run     []map[string]string // labels of its layers, bottom first; at least two
	File    string              // relative path of a regular file that the whole run shows
	Content string
}

// Test checks what the snapshotter relies on. It gets a new Subject for each case.
func Test(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Subject){
		"claims its own layers only":             checkClaim,
		"mounts a run":                           checkMount,
		"same run of a user is the same mount":   checkAgain,
		"users do not disturb each other":        checkUsers,
		"release is idempotent":                  checkRelease,
		"retain leaves what is mounted":          checkRetain,
		"an ended context mounts nothing anew":   checkContext,
		"several runs of a user end together":    checkRuns,
		"a broken run does not harm a good one":  checkBroken,
		"mounts again after all users have left": checkReturn,
	} {
		t.Run(name, func(t *testing.T) { check(t, subject(t)) })
	}
}

func checkClaim(t *testing.T, s Subject) {
	for _, labels := range s.Run {
		if err := s.Mounter.Claim(t.Context(), labels); err != nil {
			t.Errorf("%v: %v", labels, err)
		}
	}
	if err := s.Mounter.Claim(t.Context(), map[string]string{"containerd.io/snapshot.ref": "sha256:0"}); !errdefs.IsNotFound(err) {
		t.Errorf("a layer that is not converted: %v, want not found", err)
	}
}

func checkMount(t *testing.T, s Subject) {
	dir := s.mount(t, "u", s.Run)
	s.read(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err == nil {
		t.Error("the mount can be written")
	}
}

func checkAgain(t *testing.T, s Subject) {
	if a, b := s.mount(t, "u", s.Run), s.mount(t, "u", s.Run); a != b {
		t.Errorf("%s, then %s", a, b)
	}
}

func checkUsers(t *testing.T, s Subject) {
	s.mount(t, "a", s.Run)
	dir := s.mount(t, "b", s.Run)
	s.release(t, "a")
	s.read(t, dir)
}

func checkRelease(t *testing.T, s Subject) {
	s.release(t, "nobody")
	dir := s.mount(t, "other", s.Run)
	s.mount(t, "u", s.Run)
	s.release(t, "u")
	s.release(t, "u")
	s.read(t, dir)
}

func checkRetain(t *testing.T, s Subject) {
	dir := s.mount(t, "u", s.Run)
	for _, live := range [][]map[string]string{s.Run, nil} {
		if err := s.Mounter.Retain(t.Context(), live); err != nil {
			t.Error(err)
		}
		s.read(t, dir)
	}
}

func checkContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if dir, err := s.Mounter.Mount(ctx, "u", s.Run, nil); err == nil { // it may be quick
		s.root(t, dir)
	}
	s.release(t, "u")
	s.read(t, s.mount(t, "v", s.Run))
}

func checkRuns(t *testing.T, s Subject) {
	below := s.mount(t, "u", s.Run[:1])
	dir, err := s.Mounter.Mount(t.Context(), "u", s.Run[1:], []string{below})
	if err != nil {
		t.Fatal(err)
	}
	s.root(t, dir)
	if dir == below {
		t.Errorf("two runs at %s", dir)
	}
	s.release(t, "u")
}

func checkBroken(t *testing.T, s Subject) {
	dir := s.mount(t, "u", s.Run)
	if got, err := s.Mounter.Mount(t.Context(), "v", []map[string]string{{"containerd.io/snapshot.ref": "sha256:0"}}, nil); err == nil {
		t.Errorf("layer without labels is mounted at %s", got)
	}
	s.release(t, "v")
	s.read(t, dir)
}

func checkReturn(t *testing.T, s Subject) {
	for range 3 {
		s.read(t, s.mount(t, "u", s.Run))
		s.release(t, "u")
	}
}

func (s Subject) mount(t *testing.T, user string, run []map[string]string) string {
	t.Helper()
	dir, err := s.Mounter.Mount(t.Context(), user, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.root(t, dir)
	t.Cleanup(func() {
		if err := s.Mounter.Release(context.Background(), user); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (s Subject) release(t *testing.T, user string) {
	t.Helper()
	if err := s.Mounter.Release(t.Context(), user); err != nil {
		t.Error(err)
	}
}

// root wants dir to be the root of a mount that overlayfs can name.
func (s Subject) root(t *testing.T, dir string) {
	t.Helper()
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st)
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || !filepath.IsAbs(dir) || strings.ContainsAny(dir, `:,\`) {
		t.Errorf("%q is not the root of a mount, or cannot be an option: %v", dir, err)
	}
}

func (s Subject) read(t *testing.T, dir string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, s.File)); err != nil || string(b) != s.Content {
		t.Errorf("%s: %d bytes, %v", s.File, len(b), err)
	}
}
