package mounttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// modeEnv makes a test binary one whose only test leaves a FUSE mount that hangs, and ends in
// some way.
const modeEnv = "FAASNET_TEST_MODE"

func TestMain(m *testing.M) { os.Exit(Guard(m).Run()) }

// hanging never answers a STATFS.
type hanging struct {
	fuse.RawFileSystem
	asked chan struct{}
}

func (h hanging) StatFs(<-chan struct{}, *fuse.InHeader, *fuse.StatfsOut) fuse.Status {
	close(h.asked)
	select {}
}

func TestVictim(t *testing.T) {
	mode := os.Getenv(modeEnv)
	if mode == "" {
		return
	}
	dir, err := os.MkdirTemp("", "hung") //nolint:usetesting // it is to stay
	if err != nil {
		t.Fatal(err)
	}
	if mode != "file" {
		h := hanging{fuse.NewDefaultRawFileSystem(), make(chan struct{})}
		s, err := fuse.NewServer(h, dir, &fuse.MountOptions{DirectMount: true})
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve()
		if mode != "mount" {
			go unix.Statfs(dir, new(unix.Statfs_t))
			<-h.asked
		}
	}
	switch mode {
	case "panic":
		panic("as asked")
	case "hang":
		select {}
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
}

// TestNothingStays: the process of the tests ends, and what it had mounted is gone.
func TestNothingStays(t *testing.T) {
	for mode, want := range map[string]string{
		"file": "left a file", "mount": "left a mount: fuse", "panic": "as asked", "hang": "timed out", "kill": "",
	} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$", "-test.timeout=2s")
			cmd.Env = append(os.Environ(), modeEnv+"="+mode, guardEnv+"=", "TMPDIR="+dir)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, want a failure that says %q:\n%s", err, want, out)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(watchPeriod) {
				mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
				if err != nil {
					t.Fatal(err)
				}
				files, _ := filepath.Glob(filepath.Join(dir, "*"))
				if len(mounts)+len(files) == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("left %d mounts, %q", len(mounts), files)
				}
			}
		})
	}
}
