package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/convert/imagetest"
	"github.com/faasnet/faasnet/convert/start"
	"github.com/faasnet/faasnet/fs/index/indextest"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

const bigFile = 3 << 20 // of which a start reads little

// shellImage is an image with a shell.
func shellImage(t *testing.T, reg *registrytest.Registry, client *containerd.Client, name string) {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	var base, top indextest.Tar
	base.Add(indextest.Header{Name: "bin/busybox", Body: string(busybox), Mode: 0o755},
		indextest.Header{Name: "bin/sh", Type: '2', Link: "busybox"}, indextest.Header{Name: "tmp", Type: '5', Mode: 0o1777})
	for _, n := range []string{"hot", "cold", "last", "written", "replaced"} {
		top.Add(indextest.Header{Name: "data/" + n, Body: "this is " + n})
	}
	top.Add(indextest.Header{Name: "data/big", Body: strings.Repeat("0123456789abcdef", bigFile/16)})
	cs := newStore(t)
	push(t, reg, "shell", "1", cs, imagetest.Put(t, cs, imagetest.Image{Layers: []imagetest.Layer{{Tar: base.Bytes()}, {Tar: top.Bytes()}}}))
	pullInto(t, client, reg.Host()+"/shell:1", name)
}

// nothingRuns fails if containerd has a container, a lease or a snapshot that is
// no layer, or the runtime directory anything.
func nothingRuns(t *testing.T, client *containerd.Client) {
	t.Helper()
	cs, err := client.Containers(t.Context())
	if err != nil || len(cs) > 0 {
		t.Errorf("containers are left: %v, %v", cs, err)
	}
	ls, err := client.LeasesService().List(t.Context())
	if err != nil || len(ls) > 0 {
		t.Errorf("leases are left: %v, %v", ls, err)
	}
	noneLeft(t, runtimeOf(t))
	err = client.SnapshotService("overlayfs").Walk(t.Context(), func(_ context.Context, i snapshots.Info) error {
		if i.Kind != snapshots.KindCommitted {
			t.Errorf("snapshot %s is left", i.Name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func readRecordFile(t *testing.T, name string) start.Record {
	t.Helper()
	r, err := readRecord(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecord(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	reg := registrytest.New(t, registrytest.Options{})
	const image = "docker.io/library/shell:1"
	shellImage(t, reg, client, image)
	dir := t.TempDir()
	file := filepath.Join(dir, "record")
	record := func(code int, args ...string) string {
		t.Helper()
		_, stderr := faasnet(t, code, append([]string{"record", "--address", address, "--out", file}, args...)...)
		nothingRuns(t, client)
		return stderr
	}
	const script = `cd /data; busybox cat hot; busybox head -c 10 big >/dev/null; echo x >new; busybox cat new; echo more >>written
busybox rm replaced; echo x >replaced; busybox cat replaced; busybox cat /proc/version >/dev/null
trap 'busybox cat last; exit' TERM; printf REA; printf 'DY\n'; busybox sleep 1000 & wait`
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := record(0, "--until", "READY", "shell:1", "/bin/sh", "-c", script)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the record has mode %v, %v, want that of the file before", info.Mode(), err)
	}
	if !strings.Contains(out, "this is hot") {
		t.Errorf("the container's output is %q", out)
	}
	r := readRecordFile(t, file)
	var names []string
	for _, e := range r {
		names = append(names, e.Path)
	}
	// Not: links, new files, those after READY, those of other file systems.
	want := []string{"bin/busybox", "data/hot", "data/big", "data/written"}
	if got := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "data/replaced" }); !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", names, want)
	}
	i := slices.Index(names, "data/big")
	dropped := strings.Contains(out, "page caches were dropped meanwhile") // by somebody else
	if dropped && i >= 0 {
		if r[i].Used != nil {
			t.Errorf("of data/big was used %d bytes, want nothing said", *r[i].Used)
		}
		used := int64(4096)
		r[i].Used = &used
		if err := endpoint.Replace(file, r.Write); err != nil {
			t.Fatal(err)
		}
	}
	if i < 0 || r[i].Used == nil || *r[i].Used == 0 || *r[i].Used >= bigFile/3 {
		entry, _ := json.Marshal(r[max(0, i)])
		t.Errorf("of data/big was used %s, want some of it", entry)
	}

	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out := record(exitError, "--until", "NEVER", "shell:1", "/bin/sh", "-c", "exit 3"); !strings.Contains(out, `exit code 3 before it printed "NEVER"`) {
		t.Errorf("error is %q", out)
	}
	if out := record(exitError, "--until", "NEVER", "--timeout", "100ms", "shell:1", "/bin/sh", "-c", "busybox sleep 1000"); !strings.Contains(out, `"NEVER" was not printed within 100ms`) {
		t.Errorf("error is %q", out)
	}
	if out := record(exitError, "shell:1", "/bin/sh", "-c", "exit 3"); !strings.Contains(out, "ended with exit code 3") || strings.Count(out, "\n") != 1+readaheadLines(out) {
		t.Errorf("error is %q", out)
	}
	record(exitError, "shell:1", "/bin/none")
	record(exitError, "none:1")
	record(exitUsage, "oci:"+dir)
	record(exitError, "--namespace", "typo", "shell:1")
	if all, err := client.NamespaceService().List(t.Context()); err != nil || slices.Contains(all, "typo") {
		t.Errorf("namespaces are %q, %v", all, err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("a command that failed has changed the record: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files are %v, %v", entries, err)
	}

	lazy := "oci:" + filepath.Join(t.TempDir(), "lazy:1")
	s := decode[summary](t, first(faasnet(t, 0, "convert", "-q", "--json", "--record-in", file, reg.Host()+"/shell:1", lazy)))
	if len(s.Start) != 1 || s.Start[0].Little != 1 || s.Start[0].Unknown != 0 || s.Start[0].Files != len(r)-1 {
		t.Errorf("start layers are %+v", s.Start)
	}
	faasnet(t, 0, "verify", lazy)
	v := decode[imageView](t, first(faasnet(t, 0, "inspect", "--json", lazy)))
	if len(v.Layers) != 4 || v.Layers[2].Kind != "start" || v.Layers[2].Digest != s.Start[0].Target {
		t.Errorf("layers are %+v", v.Layers)
	}
	inside := decode[summary](t, first(faasnet(t, 0, "convert", "-q", "--json", "--address", address, "--record-in", file, "containerd://"+image, "containerd://docker.io/library/lazy:1")))
	if inside.Digest != s.Digest {
		t.Errorf("in containerd the image becomes %s, elsewhere %s", inside.Digest, s.Digest)
	}
	stdin, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	piped := command(t, "convert", "-q", "--json", "--record-in", "-", reg.Host()+"/shell:1", lazy)
	piped.Stdin = stdin
	if text, err := piped.Output(); err != nil || decode[summary](t, string(text)).Digest != s.Digest {
		t.Errorf("with the record on standard input the image becomes %s, %v, want %s", text, err, s.Digest)
	}
	if err := os.WriteFile(file, []byte(string(before)+"{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr := faasnet(t, exitError, "convert", "--record-in", file, reg.Host()+"/shell:1", lazy); !strings.Contains(stderr, "line ") {
		t.Errorf("error for a broken record is %q", stderr)
	}
}

func TestRecordIsStopped(t *testing.T) {
	address := startContainerd(t, "/none")
	client := dial(t, address)
	const image = "docker.io/library/shell:1"
	shellImage(t, registrytest.New(t, registrytest.Options{}), client, image)
	const serves = `trap 'echo asked; exit 7' TERM; read x </data/hot; echo serving; busybox sleep 1000 & wait`
	file := filepath.Join(t.TempDir(), "record")
	out, stderr := faasnet(t, 0, "record", "--address", address, "--until", "serving", "-o", file, image, "/bin/sh", "-c", serves)
	if !strings.Contains(out, "the recording ended when it printed \"serving\"\n") || !strings.HasSuffix(stderr, "serving\nasked\n") || !slices.ContainsFunc(readRecordFile(t, file), func(e start.Entry) bool { return e.Path == "data/hot" }) {
		t.Errorf("record says %q and %q", out, stderr)
	}
	nothingRuns(t, client)

	out, stderr = faasnet(t, 0, "record", "--address", address, "-o", "-", image, "/bin/busybox", "true")
	if out != out[:max(0, strings.Index(out, "\n"))]+"\n" || !strings.HasPrefix(out, `{"path":"bin/busybox","manifestDigest":"sha256:`) || !strings.HasSuffix(stderr, "-\n1 file; the recording ended when it ended by itself\n") {
		t.Errorf("to standard output goes %q, to standard error %q", out, stderr)
	}
	out, _ = faasnet(t, 0, "record", "--address", address, "--until", "now", "-o", file, image, "/bin/sh", "-c", "echo now; busybox sleep 1000")
	if !strings.HasSuffix(out, "2 files; the recording ended when it printed \"now\"\n") && !strings.HasSuffix(out, "1 file; the recording ended when it printed \"now\"\n") {
		t.Errorf("record says %q", out)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "record", "--address", address, "-o", file, image, "/bin/sh", "-c", serves)
	begun(t, cmd, "serving")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("process ended with %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an interrupted command has written a record")
	}
	nothingRuns(t, client)
}

// readaheadLines counts lines about the readahead: whether there is one depends on
// the disk.
func readaheadLines(stderr string) int { return strings.Count(stderr, "until the recording ends\n") }

func first(s, _ string) string { return s }
