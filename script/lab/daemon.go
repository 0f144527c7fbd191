package lab

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DaemonConfig is what a lab changes of the daemon's configuration. The zero
// value has the defaults.
type DaemonConfig struct {
	HostsDir     string       // of hosts.toml files
	NoBackground bool         // fetch only what is read
	Coordinator  *Coordinator // of the trees that the VM is in; nil: none
	LogLevel     string       // "": debug
	More         string       // tables of TOML
}

func (c DaemonConfig) toml(vm, metrics string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "metrics_address = %q\n", metrics)
	if c.NoBackground {
		b.WriteString("background_fetch = false\n")
	}
	fmt.Fprintf(&b, "[registry]\nconfig_path = %q\n", c.HostsDir)
	if c.Coordinator != nil {
		fmt.Fprintf(&b, "[tree]\nenabled = true\ncoordinators = [%q]\nvm = %q\n[peer]\naddress = \":7000\"\n", c.Coordinator.Addr, vm)
	}
	b.WriteString(c.More)
	return b.String()
}

// Daemon is our snapshotter on a host.
type Daemon struct {
	*Proc
	host   *Host
	dir    string
	config DaemonConfig
}

// Daemon starts our snapshotter on the host.
func (h *Host) Daemon(ctx context.Context, config DaemonConfig) (*Daemon, error) {
	d := &Daemon{host: h, dir: filepath.Join(h.dir, "d"), config: config}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, err
	}
	return d, d.Start(ctx)
}

// Start starts the daemon again, after Stop or Kill.
func (d *Daemon) Start(ctx context.Context) error {
	file := filepath.Join(d.dir, "config.toml")
	if err := os.WriteFile(file, []byte(d.config.toml(d.host.name, d.metrics())), 0o644); err != nil {
		return err
	}
	var err error
	d.Proc, err = d.host.Start("faasnet", filepath.Join(d.host.lab.tools.Product, "containerd-faasnet-grpc"),
		"-address", d.Address(), "-root", d.Root(), "-config", file, "-log-level", cmp.Or(d.config.LogLevel, "debug"))
	if err != nil {
		return err
	}
	return d.Await(ctx, d.Address())
}

// Await waits until the process listens on the Unix socket; its death ends the
// wait.
func (p *Proc) Await(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return p.until(ctx, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
		return err == nil && conn.Close() == nil
	})
}

// Address is the daemon's socket.
func (d *Daemon) Address() string { return filepath.Join(d.dir, "d.sock") }

// Root is where the daemon keeps its state.
func (d *Daemon) Root() string { return filepath.Join(d.dir, "root") }

func (d *Daemon) metrics() string { return filepath.Join(d.dir, "m.sock") }

// Metrics reads the daemon's metrics: values by name and labels as Prometheus
// writes them.
func (d *Daemon) Metrics(ctx context.Context) (map[string]float64, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.metrics())
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	values := map[string]float64{}
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		series, value, ok := cutLast(in.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(series, "#") {
			values[series] = v
		}
	}
	return values, in.Err()
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
