package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/faasnet/faasnet/script/lab"
)

// The kubelet asks containerd where images are and what they take. It is told of
// our directory, whose file system it then looks at.
func TestKC07_ImageFilesystem(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{NoBackground: true})
	v.withCRI()
	v.Containerd = v.Namespace("k8s.io") // the only one that the plugin looks at
	k := v.killed("kill", 1)
	v.check(v.Pull(t.Context(), "faasnet", k.lazy))
	root := v.daemon.Root()
	path, _ := v.imageFS()
	if _, err := os.Stat(path); err != nil || path != root {
		t.Errorf("images are said to be in %q, want %q; %v", path, root, err)
	}
	docs := string(must(os.ReadFile("../../docs/containerd.md"))(t))
	if !strings.Contains(docs, "root = \"/var/lib/containerd-faasnet-grpc\"") {
		t.Error("docs/containerd.md does not say where root is")
	}
	// What a container writes is counted; of a committed snapshot containerd asks
	// once only, so what is cached of lazy layers is seen in the file system alone.
	c := must(v.Attach(t.Context(), "faasnet", k.lazy, "/bin/sh", "-c", "dd if=/dev/zero of=/zeros bs=65536 count=64 2>/dev/null; echo written; read end"))(t)
	if line := must(c.Line())(t); line != "written" {
		t.Fatalf("the container prints %q", line)
	}
	const patience, written = 30 * time.Second, 64 * 65536
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		_, used := v.imageFS()
		if used >= written {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v after a container wrote %d bytes %d are said to be used", patience, written, used)
		}
	}
	v.check(c.Say("end"))
	v.check(c.Wait())
}

// withCRI starts containerd again with its CRI plugin, as on a node of Kubernetes.
func (v *vm) withCRI() {
	v.Helper()
	file := filepath.Join(v.host.Dir(), "c", "config.toml")
	config := string(must(os.ReadFile(file))(v))
	for _, plugin := range []string{"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"} {
		config = strings.ReplaceAll(config, fmt.Sprintf("%q, ", plugin), "")
		config = strings.ReplaceAll(config, fmt.Sprintf("%q,\n", plugin), "\n")
	}
	config += "[plugins.\"io.containerd.cri.v1.images\"]\nsnapshotter = \"faasnet\"\nstats_collect_period = 1\n"
	v.check(v.Containerd.Stop(30 * time.Second))
	v.check(os.WriteFile(file, []byte(config), 0o644))
	v.check(v.Containerd.Start(v.Context()))
}

// imageFS asks what the kubelet asks, and reads what it reads of the answer:
// the first file system.
func (v *vm) imageFS() (path string, used int64) {
	v.Helper()
	conn := must(grpc.NewClient("unix://"+v.Address(), grpc.WithTransportCredentials(insecure.NewCredentials())))(v)
	defer conn.Close()
	var answer []byte
	v.check(conn.Invoke(v.Context(), "/runtime.v1.ImageService/ImageFsInfo", []byte{}, &answer, grpc.ForceCodec(raw{})))
	fs := field(answer, 1)
	path = string(field(field(fs, 2), 1)) // fs_id.mountpoint
	n, _ := protowire.ConsumeVarint(field(field(fs, 3), 1))
	return path, int64(n)
}

// field returns the first field of that number of a message.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(num, kind, message)
		if size < 0 {
			return nil
		}
		if num == number {
			if kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message)
				return value
			}
			return message[:size]
		}
		message = message[size:]
	}
	return nil
}

// raw passes messages as bytes.
type raw struct{}

func (raw) Name() string                    { return "proto" }
func (raw) Marshal(m any) ([]byte, error)   { return m.([]byte), nil }
func (raw) Unmarshal(p []byte, m any) error { *m.(*[]byte) = p; return nil }
