package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Release says which containerd runs.
type Release string

const (
	// Current is the release in Tools.Dir.
	Current Release = "current"
	// Debian is the one of the Debian package (1.6 in Debian 12).
	Debian Release = "debian"
)

func (r Release) program(t Tools, name string) string {
	if r == Debian {
		return filepath.Join("/usr/bin", name)
	}
	return filepath.Join(t.Dir, name)
}

// Containerd is a containerd of a host's, with its own root, state and socket.
type Containerd struct {
	*Proc
	host    *Host
	release Release
	dir     string
	hosts   string
	plugin  *Plugin       // nil: overlayfs only
	nextID  *atomic.Int64 // containers are named apart in all namespaces

	namespace string
}

// Containerd starts containerd on the host. It reaches registries as the
// directory hostsDir says, and, when daemon is not nil, has the snapshotter
// "faasnet".
func (h *Host) Containerd(ctx context.Context, r Release, hostsDir string, daemon *Daemon) (*Containerd, error) {
	if daemon == nil {
		return h.ContainerdWith(ctx, r, hostsDir, nil)
	}
	return h.ContainerdWith(ctx, r, hostsDir, &Plugin{Name: "faasnet", Address: daemon.Address(), Root: daemon.Root()})
}

// ContainerdWith is Containerd with another snapshotter than ours; nil: none.
func (h *Host) ContainerdWith(ctx context.Context, r Release, hostsDir string, plugin *Plugin) (*Containerd, error) {
	c := &Containerd{host: h, release: r, dir: filepath.Join(h.dir, "c"), hosts: hostsDir, plugin: plugin, nextID: new(atomic.Int64), namespace: "default"}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.path("config.toml"), []byte(c.config()), 0o644); err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

// Start starts containerd again, after Stop or Kill.
func (c *Containerd) Start(ctx context.Context) (err error) {
	program := c.release.program(c.host.lab.tools, "containerd")
	path := "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH") // it looks for its shim there
	c.Proc, err = c.host.Start("containerd", "env", path, program, "--config", c.path("config.toml"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return c.until(ctx, func() bool {
		_, err := c.Ctr(ctx, "version")
		return err == nil
	})
}

func (c *Containerd) path(name string) string { return filepath.Join(c.dir, name) }

// Address is containerd's socket.
func (c *Containerd) Address() string { return c.host.ContainerdAddress() }

// ContainerdAddress is the socket of the host's containerd, when it has one.
func (h *Host) ContainerdAddress() string { return filepath.Join(h.dir, "c", "c.sock") }

// config switches off what the lab does not use and what lies outside its
// directory.
func (c *Containerd) config() string {
	var b strings.Builder
	version := 2
	if c.release == Current {
		version = 3
	}
	fmt.Fprintf(&b, "version = %d\nroot = %q\nstate = %q\n", version, c.path("root"), c.path("state"))
	b.WriteString(`disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
	"io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.internal.v1.tracing", "io.containerd.internal.v1.restart", "io.containerd.monitor.container.v1.restart"]
`)
	fmt.Fprintf(&b, "[grpc]\naddress = %q\n[ttrpc]\naddress = %q\n", c.Address(), c.path("t.sock"))
	fmt.Fprintf(&b, "[plugins.\"io.containerd.internal.v1.opt\"]\npath = %q\n", c.path("opt"))
	if c.release == Current {
		b.WriteString((&Plugin{Name: "overlayfs"}).unpack())
	}
	if c.plugin != nil {
		b.WriteString(c.plugin.toml(c.release))
	}
	return b.String()
}

// args are ctr's arguments for this containerd.
func (c *Containerd) args(args ...string) []string {
	return append([]string{"--address", c.Address(), "--namespace", c.namespace}, args...)
}

// Ctr runs ctr, of the same release, and returns what it prints.
func (c *Containerd) Ctr(ctx context.Context, args ...string) (string, error) {
	return c.host.Run(ctx, c.release.program(c.host.lab.tools, "ctr"), c.args(args...)...)
}

// Pull pulls an image as an operator does.
func (c *Containerd) Pull(ctx context.Context, snapshotter, ref string) error {
	_, err := c.Ctr(ctx, "image", "pull", "--hosts-dir", c.hosts, "--snapshotter", snapshotter, ref)
	return err
}

// Mount mounts an image without a container, read-only, at a new directory,
// and returns it. Not for Debian's 1.6, whose ctr does not heed the snapshotter.
func (c *Containerd) Mount(ctx context.Context, snapshotter, ref string) (dir string, err error) {
	if dir, err = os.MkdirTemp(c.host.dir, "mount"); err != nil {
		return "", err
	}
	_, err = c.Ctr(ctx, "image", "mount", "--snapshotter", snapshotter, ref, dir)
	return dir, err
}

// Unmount undoes Mount.
func (c *Containerd) Unmount(ctx context.Context, snapshotter, dir string) error {
	_, err := c.Ctr(ctx, "image", "unmount", "--snapshotter", snapshotter, "--rm", dir)
	return err
}

// Namespace returns the same containerd, used in another namespace.
func (c *Containerd) Namespace(name string) *Containerd {
	n := *c
	n.namespace = name
	return &n
}

// Layers lists the layers of an image that containerd has.
func (c *Containerd) Layers(ctx context.Context, ref string) ([]ocispec.Descriptor, error) {
	client, err := containerd.New(c.Address(), containerd.WithDefaultNamespace(c.namespace))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx = namespaces.WithNamespace(ctx, c.namespace)
	image, err := client.ImageService().Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	manifest, err := images.Manifest(ctx, client.ContentStore(), image.Target, platforms.Default())
	return manifest.Layers, err
}
