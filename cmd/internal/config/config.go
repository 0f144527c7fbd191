// Package config is the daemon's configuration file: TOML, strict, every key
// with a default. docs/configuration.md explains the keys, and a test holds it
// to this package. Only commands know it; libraries take options.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/pelletier/go-toml/v2"

	"github.com/faasnet/faasnet/fs/fetch"
	"github.com/faasnet/faasnet/fs/store"
)

// Config is the whole file.
type Config struct {
	MetricsAddress  string `toml:"metrics_address"`
	DebugAddress    string `toml:"debug_address"`
	LogFormat       string `toml:"log_format"`
	BackgroundFetch bool   `toml:"background_fetch"`

	Store       Store       `toml:"store"`
	Fetch       Fetch       `toml:"fetch"`
	FUSE        FUSE        `toml:"fuse"`
	Snapshotter Snapshotter `toml:"snapshotter"`
	Registry    Registry    `toml:"registry"`
	Tree        Tree        `toml:"tree"`
	Peer        Peer        `toml:"peer"`
}

// Store bounds what is kept on disk.
type Store struct {
	MaxBytes     Size `toml:"max_bytes"`
	MaxFlatBytes Size `toml:"max_flat_bytes"`
}

// Fetch bounds how blocks are fetched.
type Fetch struct {
	Deadline      Duration `toml:"deadline"`
	Slots         int      `toml:"slots"`
	SlotsPerLayer int      `toml:"slots_per_layer"`
	InFlightBytes Size     `toml:"in_flight_bytes"`
	ReadAhead     int      `toml:"read_ahead"`
	FillSlots     int      `toml:"fill_slots"`
	Start         bool     `toml:"start"`
}

// FUSE tunes what the kernel may ask of the daemon.
type FUSE struct {
	ReadTimeout   Duration `toml:"read_timeout"`
	MaxBackground int      `toml:"max_background"`
	DirectIO      bool     `toml:"direct_io"`
}

// Snapshotter bounds how long containerd waits, and what it may leave to us.
type Snapshotter struct {
	PrepareTimeout Duration `toml:"prepare_timeout"`
	UnpackTimeout  Duration `toml:"unpack_timeout"`
	MountsTimeout  Duration `toml:"mounts_timeout"`
	RemapIDs       bool     `toml:"remap_ids"`
}

// Registry says how registries are reached.
type Registry struct {
	ConfigPath     string   `toml:"config_path"`
	DockerConfig   string   `toml:"docker_config"`
	PlainHTTP      []string `toml:"plain_http"`
	SkipVerify     []string `toml:"skip_verify"`
	ConnectTimeout Duration `toml:"connect_timeout"`
	IdleTimeout    Duration `toml:"idle_timeout"`
	PerHost        int      `toml:"per_host"`
}

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		LogFormat:       "text",
		BackgroundFetch: true,
		Store:           Store{MaxBytes: store.DefaultMaxBytes, MaxFlatBytes: store.DefaultMaxFlatBytes},
		Fetch: Fetch{
			Deadline: Duration(fetch.DefaultDeadline), Slots: fetch.DefaultSlots, SlotsPerLayer: fetch.DefaultBlobSlots,
			InFlightBytes: fetch.DefaultInFlightBytes, ReadAhead: fetch.DefaultReadAhead, FillSlots: fetch.DefaultFillSlots,
			Start: true,
		},
		FUSE: FUSE{ReadTimeout: Duration(30 * time.Second), MaxBackground: 4096},
		Snapshotter: Snapshotter{
			PrepareTimeout: Duration(1500 * time.Millisecond), UnpackTimeout: Duration(5 * time.Second), MountsTimeout: Duration(30 * time.Second),
		},
		Registry: Registry{
			ConfigPath: "/etc/containerd/certs.d:/etc/docker/certs.d", PlainHTTP: []string{}, SkipVerify: []string{},
			ConnectTimeout: Duration(3 * time.Second), IdleTimeout: Duration(10 * time.Second), PerHost: 32,
		},
		Tree: defaultTree(),
		Peer: defaultPeer(),
	}
}

// Load reads the file. A file that is absent is an error unless mayMiss: the
// default path may be absent, one that a person wrote may not.
func Load(path string, mayMiss bool) (*Config, error) {
	p, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && mayMiss {
		return Default(), nil
	}
	if err != nil {
		return nil, err
	}
	c, err := Parse(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads TOML. Keys that are not given keep their defaults, unknown ones
// are errors: a key with a typing error must not pass for a default.
func Parse(p []byte) (*Config, error) {
	c := Default()
	d := toml.NewDecoder(bytes.NewReader(p)).DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", explain(err), errdefs.ErrInvalidArgument)
	}
	return c, c.validate()
}

// explain makes one line of what the decoder says.
func explain(err error) string {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		var unknown []string
		for _, e := range strict.Errors {
			line, _ := e.Position()
			unknown = append(unknown, fmt.Sprintf("line %d: unknown key %q", line, strings.Join(e.Key(), ".")))
		}
		return strings.Join(unknown, "; ")
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, column := decode.Position()
		return fmt.Sprintf("line %d, column %d: %v", line, column, decode)
	}
	return err.Error()
}

func (c *Config) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, errdefs.ErrInvalidArgument)...))
		}
	}
	refuse(!slices.Contains([]string{"text", "json"}, c.LogFormat), "log_format %q is neither text nor json", c.LogFormat)
	for key, v := range map[string]int64{
		"store.max_bytes": int64(c.Store.MaxBytes), "store.max_flat_bytes": int64(c.Store.MaxFlatBytes),
		"fetch.deadline": int64(c.Fetch.Deadline), "fetch.slots": int64(c.Fetch.Slots), "fetch.slots_per_layer": int64(c.Fetch.SlotsPerLayer),
		"fetch.in_flight_bytes": int64(c.Fetch.InFlightBytes), "fetch.fill_slots": int64(c.Fetch.FillSlots),
		"fuse.read_timeout":           int64(c.FUSE.ReadTimeout),
		"snapshotter.prepare_timeout": int64(c.Snapshotter.PrepareTimeout), "snapshotter.unpack_timeout": int64(c.Snapshotter.UnpackTimeout),
		"snapshotter.mounts_timeout": int64(c.Snapshotter.MountsTimeout),
		"registry.connect_timeout":   int64(c.Registry.ConnectTimeout), "registry.idle_timeout": int64(c.Registry.IdleTimeout),
		"registry.per_host": int64(c.Registry.PerHost),
		"tree.join_timeout": int64(c.Tree.JoinTimeout), "peer.max_connections": int64(c.Peer.MaxConnections),
	} {
		refuse(v <= 0, "%s is not above 0", key)
	}
	for key, address := range map[string]string{"metrics_address": c.MetricsAddress, "debug_address": c.DebugAddress} {
		refuse(!validAddress(address), "%s %q is neither host:port nor the path of a socket", key, address)
	}
	for key, hosts := range map[string][]string{"registry.plain_http": c.Registry.PlainHTTP, "registry.skip_verify": c.Registry.SkipVerify} {
		for _, h := range hosts {
			refuse(h == "" || strings.ContainsAny(h, "/ "), "%s: %q is not host or host:port", key, h)
		}
	}
	refuse(c.Fetch.ReadAhead < 0, "fetch.read_ahead %d is below 0", c.Fetch.ReadAhead)
	refuse(c.FUSE.MaxBackground < 64 || c.FUSE.MaxBackground > 65535, "fuse.max_background %d is not within 64 and 65535", c.FUSE.MaxBackground)
	refuse(c.FUSE.ReadTimeout < c.Fetch.Deadline, "fuse.read_timeout %v is shorter than fetch.deadline %v", c.FUSE.ReadTimeout, c.Fetch.Deadline)
	c.validateTree(refuse)
	return errors.Join(errs...)
}

// validAddress reports whether obs.Listen can make something of address; empty
// is nothing to listen on.
func validAddress(address string) bool {
	path, unix := strings.CutPrefix(address, "unix://")
	if address == "" || unix || filepath.IsAbs(path) {
		return address == "" || filepath.IsAbs(path)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
