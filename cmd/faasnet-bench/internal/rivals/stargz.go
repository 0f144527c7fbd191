package rivals

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/faasnet/faasnet/script/lab"
)

//go:embed programs/stargz.go.txt
var stargzMain string

const stargzVersion = "v0.19.1"

// stargz is the stargz-snapshotter with its defaults: after the start it
// fetches whole layers in the background.
func stargz() System { return stargzWith("stargz", "") }

// stargzWithoutBackground fetches only what is read and what the image says is
// read at the start. No other system needs fewer bytes without a tree.
func stargzWithoutBackground() System {
	return stargzWith("stargz-nobg", "no_background_fetch = true\n")
}

func stargzWith(name, more string) System {
	program := goModule{
		path: "github.com/containerd/stargz-snapshotter", version: stargzVersion,
		program: "containerd-stargz-grpc", main: stargzMain, requires: []string{"github.com/pelletier/go-toml/v2@v2.4.3"},
	}
	return System{
		Name: name, Snapshotter: "stargz", Tag: "estargz", Lazy: true, Convert: optimize, Install: program.install,
		Start: func(ctx context.Context, vm *lab.Host, programs, registry string) (*lab.Plugin, error) {
			config := fmt.Sprintf("# stargz-snapshotter %s\n%s[[resolver.host.%q.mirrors]]\nhost = %q\ninsecure = true\n", stargzVersion, more, registry, registry)
			return daemon(ctx, vm, "stargz", filepath.Join(programs, program.file()), config)
		},
	}
}

// optimize makes an eStargz image by `ctr-remote image optimize`: the function
// runs, and the files that it opens come first in their layers and are fetched
// before the mount.
func optimize(ctx context.Context, c Conversion) error {
	fmt.Fprintln(c.Log, "optimizing the eStargz image")
	temp := filepath.Join(c.Host.Dir(), "optimize") // it mounts the image there
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Join("/run/containerd/runc", c.Namespace)) // what the runtime notes of the container
	_, err := c.Host.Run(ctx, "env", "TMPDIR="+temp, "ctr-remote", "--address", c.Containerd.Address(), "--namespace", c.Namespace,
		"images", "optimize", "--oci", "--period", "30", c.Source, c.Target)
	if err != nil {
		return err
	}
	return c.Push(ctx)
}
