package lab

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Daemon is our snapshotter on a host.
type Daemon struct {
	*Proc
	host   *Host
	dir    string
	config string
}

// Daemon starts our snapshotter; config is its whole configuration file.
func (h *Host) Daemon(ctx context.Context, config string) (*Daemon, error) {
	d := &Daemon{host: h, dir: filepath.Join(h.dir, "d"), config: config}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, err
	}
	return d, d.Start(ctx)
}

// Start starts the daemon again, after Stop or Kill.
func (d *Daemon) Start(ctx context.Context) error {
	file := filepath.Join(d.dir, "config.toml")
	if err := os.WriteFile(file, []byte(d.config), 0o644); err != nil {
		return err
	}
	var err error
	d.Proc, err = d.host.Start("faasnet", filepath.Join(d.host.lab.tools.Product, "containerd-faasnet-grpc"),
		"-address", d.Address(), "-root", d.Root(), "-config", file, "-log-level", "debug")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return d.until(ctx, func() bool {
		conn, err := net.DialTimeout("unix", d.Address(), time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// Address is the daemon's socket.
func (d *Daemon) Address() string { return filepath.Join(d.dir, "d.sock") }

// Root is where the daemon keeps its state.
func (d *Daemon) Root() string { return filepath.Join(d.dir, "root") }

// DaemonConfig is a configuration that reaches registries as hostsDir says.
func DaemonConfig(hostsDir string) string { return "[registry]\nhosts_dirs = [\"" + hostsDir + "\"]\n" }
