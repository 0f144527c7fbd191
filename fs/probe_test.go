package fs

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if err := Probe(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("probe left %v, %v", left, err)
	}
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOTBLK: "EROFS is mounted from block devices only: by this kernel (CONFIG_EROFS_FS_BACKED_BY_FILE, Linux 6.12 or later), or on this file system (tmpfs)",
		unix.EPERM:   "the daemon needs root (CAP_SYS_ADMIN)",
	} {
		if got := missing(&os.PathError{Op: "mount", Err: err}); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Probe(ctx, t.TempDir()); !errdefs.IsNotImplemented(err) {
		t.Errorf("probe with an ended context: %v", err)
	}
}
