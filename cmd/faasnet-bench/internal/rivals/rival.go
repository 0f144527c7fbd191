// Package rivals knows the systems that are compared: how an image is made fit
// for each, and how its snapshotter runs on a VM. One more is one more file and
// its line in All.
package rivals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/faasnet/faasnet/script/lab"
)

// The registry's tags of the function's image.
const (
	Original  = "orig"
	Converted = "faasnet"
)

// Recorded ends the tags of conversions that carry a start layer.
const Recorded = "-recorded"

// System is a way to start functions. Its hooks may be nil: then there is
// nothing to do.
type System struct {
	Name        string // as results name it
	Snapshotter string // as containerd knows it
	Tag         string // of the image that VMs pull
	Ours        bool   // VMs run our daemon
	Tree        bool   // and are in trees
	Lazy        bool   // layers are mounted and fetched when they are read
	Unpacked    bool   // the image is on the disk of VMs before the start

	// Convert makes the image of Tag, in the registry, from the original one.
	Convert func(ctx context.Context, c Conversion) error
	// Start starts the snapshotter on a VM. registry is host:port of the
	// registry, which speaks plain HTTP.
	Start func(ctx context.Context, vm *lab.Host, programs, registry string) (*lab.Plugin, error)
	// Install makes the programs of Start and Convert in a directory of their
	// own, unless they are there.
	Install func(ctx context.Context, programs string, log io.Writer) error
}

// All lists the systems, those that take longest first.
func All() []System {
	return []System{overlayfs(), erofs(), stargz(), stargzWithoutBackground(), soci(), faasnetWithoutTree(), faasnet(), floor()}
}

// Find returns the system of the name.
func Find(name string) (System, error) {
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	return System{}, fmt.Errorf("no system %q", name)
}

// Conversion is what System.Convert has: a host on the machine's own network
// with a containerd that has pulled Source from the registry.
type Conversion struct {
	Host           *lab.Host
	Containerd     *lab.Containerd
	Namespace      string // of containerd
	Programs       string // what Install made
	Source, Target string // references
	Log            io.Writer
}

// Push pushes the image of Target from containerd to the registry.
func (c Conversion) Push(ctx context.Context) error {
	_, err := c.Containerd.Ctr(ctx, "image", "push", "--plain-http", "--local", c.Target)
	return err
}

// daemon starts the program of a snapshotter that takes -address, -root and
// -config, as those of this package do, with the configuration, in the VM's
// directory s.
func daemon(ctx context.Context, vm *lab.Host, name, program, config string) (*lab.Plugin, error) {
	dir := filepath.Join(vm.Dir(), "s")
	p := &lab.Plugin{Name: name, Address: filepath.Join(dir, "s.sock"), Root: filepath.Join(dir, "root")}
	if err := os.MkdirAll(p.Root, 0o711); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.toml")
	err := os.WriteFile(file, []byte(config), 0o644)
	if err != nil {
		return nil, err
	}
	if p.Daemon, err = vm.Start(name, program, "-address", p.Address, "-root", p.Root, "-config", file); err != nil {
		return nil, err
	}
	return p, p.Daemon.Await(ctx, p.Address)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, os.ErrNotExist)
}
