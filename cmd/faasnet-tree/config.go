package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/cmd/internal/coordinator/etcdjournal"
	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/treeclient"
)

const (
	defaultConfig    = "/etc/faasnet-tree/config.toml"
	defaultListen    = ":7400"
	defaultScheduler = "127.0.0.1:7401"
	defaultKeyFile   = "/var/lib/faasnet-tree/token.key"
)

// settings is the configuration file. Flags of the same names go before it.
type settings struct {
	Listen          string   `toml:"listen"`
	SchedulerListen string   `toml:"scheduler_listen"`
	MetricsAddress  string   `toml:"metrics_address"`
	DebugAddress    string   `toml:"debug_address"`
	LogLevel        string   `toml:"log_level"`
	LogFormat       string   `toml:"log_format"`
	Form            string   `toml:"form"`
	Heartbeat       span     `toml:"heartbeat"`
	MaxFunctions    int      `toml:"max_functions"`
	HostConnections int      `toml:"host_connections"`
	Idle            span     `toml:"idle"`
	Settle          span     `toml:"settle"`
	TokenTTL        span     `toml:"token_ttl"`
	KeyFile         string   `toml:"key_file"`
	CredentialKeys  []string `toml:"credential_keys"`
	AllowLoopback   bool     `toml:"allow_loopback"`

	TLS  tlsSettings  `toml:"tls"`
	Etcd etcdSettings `toml:"etcd"`
}

// span is a time, written as in Go: "1.5s", "2m".
type span time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *span) UnmarshalText(p []byte) error {
	v, err := time.ParseDuration(string(p))
	*d = span(v)
	return err
}

func (d span) String() string { return time.Duration(d).String() }

// tlsSettings are files in PEM.
type tlsSettings struct {
	Cert              string `toml:"cert"`
	Key               string `toml:"key"`
	ClientCA          string `toml:"client_ca"`
	SchedulerClientCA string `toml:"scheduler_client_ca"`
}

type etcdSettings struct {
	Endpoints []string `toml:"endpoints"`
	Advertise string   `toml:"advertise"`
	Scheduler string   `toml:"scheduler_advertise"`
	Prefix    string   `toml:"prefix"`
	TTL       span     `toml:"ttl"`
	CA        string   `toml:"ca"`
	Cert      string   `toml:"cert"`
	Key       string   `toml:"key"`
}

func defaults() *settings {
	return &settings{
		Listen: defaultListen, SchedulerListen: defaultScheduler, LogLevel: "info", LogFormat: "text",
		Form: string(tree.Striped), Heartbeat: span(coordinator.DefaultHeartbeat), MaxFunctions: coordinator.DefaultMaxFunctions, HostConnections: coordinator.DefaultHostConnections,
		Idle: span(coordinator.DefaultIdle), Settle: span(coordinator.DefaultSettle), TokenTTL: span(coordinator.DefaultTokenTTL),
		KeyFile: defaultKeyFile,
		Etcd:    etcdSettings{Prefix: etcdjournal.DefaultPrefix, TTL: span(etcdjournal.DefaultTTL)},
	}
}

// load reads the file. The default path may be absent, one that a person
// wrote may not.
func load(path string, mayMiss bool) (*settings, error) {
	p, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && mayMiss {
		return defaults(), nil
	}
	if err != nil {
		return nil, err
	}
	s := defaults()
	if err := toml.NewDecoder(bytes.NewReader(p)).DisallowUnknownFields().Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %s", path, explain(err))
	}
	return s, nil
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

// check refuses what does not go together and fills in what follows.
func (s *settings) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := tree.New(tree.Form(s.Form))
	refuse(err != nil, "form: %v", err)
	for key, v := range map[string]int64{
		"heartbeat": int64(s.Heartbeat), "max_functions": int64(s.MaxFunctions), "host_connections": int64(s.HostConnections), "idle": int64(s.Idle), "settle": int64(s.Settle),
		"token_ttl": int64(s.TokenTTL), "etcd.ttl": int64(s.Etcd.TTL),
	} {
		refuse(v <= 0, "%s is not above 0", key)
	}
	beat := time.Duration(s.Heartbeat)
	refuse(beat > 0 && (beat < treeclient.MinHeartbeat || beat > treeclient.MaxHeartbeat), "heartbeat %v is not within %v and %v", beat, treeclient.MinHeartbeat, treeclient.MaxHeartbeat)
	refuse(s.TokenTTL > 0 && time.Duration(s.TokenTTL) < 10*beat, "token_ttl %v is shorter than ten heartbeats, the time to renew a token", s.TokenTTL)
	host, port, err := net.SplitHostPort(s.Listen)
	refuse(err != nil, "listen %q is not host:port", s.Listen)
	refuse((s.TLS.Cert == "") != (s.TLS.Key == ""), "tls.cert and tls.key go together")
	refuse(s.TLS.Cert == "" && s.TLS.ClientCA+s.TLS.SchedulerClientCA != "", "a client CA needs tls.cert")
	refuse(!private(s.SchedulerListen) && s.TLS.SchedulerClientCA == "",
		"scheduler_listen %q: whoever reaches it may do anything with every tenant's trees; listen on loopback or a Unix socket, or set tls.scheduler_client_ca", s.SchedulerListen)
	refuse((s.Etcd.Cert == "") != (s.Etcd.Key == ""), "etcd.cert and etcd.key go together")
	if len(s.Etcd.Endpoints) > 0 && s.Etcd.Advertise == "" && err == nil {
		ip := net.ParseIP(host)
		refuse(host == "" || ip != nil && ip.IsUnspecified() || port == "0", "with etcd, VMs are sent from one coordinator to another: etcd.advertise must say where they find this one")
		s.Etcd.Advertise = s.Listen
	}
	return errors.Join(errs...)
}

// private says that only this host reaches the address.
func private(address string) bool {
	if address == "" || strings.HasPrefix(address, "unix://") || filepath.IsAbs(address) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (s *settings) advertise() string { return cmp.Or(s.Etcd.Advertise, s.Listen) }

// schedulerAdvertise is where schedulers on other hosts find this coordinator: by
// default where it listens for them, if that is an address to dial from there.
func (s *settings) schedulerAdvertise() string {
	if s.Etcd.Scheduler != "" || private(s.SchedulerListen) {
		return s.Etcd.Scheduler
	}
	host, _, err := net.SplitHostPort(s.SchedulerListen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return ""
	}
	return s.SchedulerListen
}
