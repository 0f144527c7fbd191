package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/convert/imagetest"
)

// TestProgress: a terminal gets a bar, which is gone at the end, all else plain lines.
func TestProgress(t *testing.T) {
	cs := newStore(t)
	src := "oci:" + filepath.Join(t.TempDir(), "src")
	put(t, cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: files(map[string]string{"f": strings.Repeat("text", 100_000)})}}}), src)
	_, lines := faasnet(t, 0, "convert", src, "oci:"+filepath.Join(t.TempDir(), "dst"))
	if !strings.Contains(lines, "converting") || strings.ContainsAny(lines, "\r\x1b") {
		t.Errorf("plain lines are %q", lines)
	}
	if _, quiet := faasnet(t, 0, "convert", "-q", src, "oci:"+filepath.Join(t.TempDir(), "dst")); quiet != "" {
		t.Errorf("-q prints %q", quiet)
	}

	terminal, user := openTerminal(t)
	cmd := command(t, "convert", src, "oci:"+filepath.Join(t.TempDir(), "dst"))
	cmd.Stderr = terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	var shown strings.Builder
	for buf := make([]byte, 4096); ; {
		n, err := user.Read(buf)
		shown.Write(buf[:n])
		if errors.Is(err, unix.EIO) { // the last one has closed the terminal
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if s := shown.String(); !strings.Contains(s, "\rreading layers") || strings.Contains(s, "converting") {
		t.Errorf("the terminal shows %q", s)
	}
}

// openTerminal gives a terminal, and the end where its user sits.
func openTerminal(t *testing.T) (terminal, user *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, user
}
