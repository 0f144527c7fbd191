package main

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// startWaiting starts a process that is to wait for another recording, and returns
// when it does.
func startWaiting(t *testing.T, address, image, file string) *exec.Cmd {
	t.Helper()
	cmd := command(t, "record", "--address", address, "-o", file, image, "/bin/busybox", "true")
	begun(t, cmd, "waiting for another recording")
	return cmd
}

// containers is how many there are.
func containers(t *testing.T, client *containerd.Client) int {
	t.Helper()
	cs, err := client.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(cs)
}

// TestRecordingsTakeTurns: what one does to the readahead and the page cache would
// change what the other one sees.
func TestRecordingsTakeTurns(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	const image = "docker.io/library/shell:1"
	shellImage(t, registrytest.New(t, registrytest.Options{}), client, image)
	file := filepath.Join(t.TempDir(), "record")
	first, _ := startRecording(t, address, image, filepath.Join(t.TempDir(), "first"))
	second, third := startWaiting(t, address, image, file), startWaiting(t, address, image, file)
	if n := containers(t, client); n != 1 {
		t.Errorf("%d containers run, want that of the first recording only", n)
	}
	if err := third.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := third.Wait(); err == nil || third.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("one that waits ends with %v", err)
	}
	if err := first.Process.Kill(); err != nil { // what it leaves is removed by the next
		t.Error(err)
	}
	first.Wait()
	if err := second.Wait(); err != nil {
		t.Errorf("the second ends with %v", err)
	}
	if r := readRecordFile(t, file); len(r) != 1 || r[0].Path != "bin/busybox" {
		t.Errorf("the second has recorded %+v", r)
	}
	nothingRuns(t, client)
}
