package main

import (
	"github.com/urfave/cli/v2"
)

const (
	addressCategory  = "Addresses:"
	treeCategory     = "Trees:"
	identityCategory = "Identity:"
	etcdCategory     = "Several coordinators:"
)

// A setter writes what was given on the command line over the file.
type setter func(c *cli.Context, s *settings)

// serveFlags are flags, each with what it sets.
func serveFlags() (flags []cli.Flag, set map[string]setter) {
	set = map[string]setter{}
	text := func(name, category, usage string, to func(*settings) *string) {
		flags = append(flags, &cli.StringFlag{Name: name, Category: category, Usage: usage, DefaultText: *to(defaults())})
		set[name] = func(c *cli.Context, s *settings) { *to(s) = c.String(name) }
	}
	period := func(name, category, usage string, to func(*settings) *span) {
		flags = append(flags, &cli.DurationFlag{Name: name, Category: category, Usage: usage, DefaultText: to(defaults()).String()})
		set[name] = func(c *cli.Context, s *settings) { *to(s) = span(c.Duration(name)) }
	}
	list := func(name, category, usage string, to func(*settings) *[]string) {
		flags = append(flags, &cli.StringSliceFlag{Name: name, Category: category, Usage: usage})
		set[name] = func(c *cli.Context, s *settings) { *to(s) = c.StringSlice(name) }
	}
	text("listen", addressCategory, "`ADDRESS` for VMs, host:port", func(s *settings) *string { return &s.Listen })
	text("scheduler-listen", addressCategory, "`ADDRESS` for schedulers, host:port or the path of a Unix socket", func(s *settings) *string { return &s.SchedulerListen })
	text("metrics-address", addressCategory, "`ADDRESS` of /metrics, /healthz and /readyz", func(s *settings) *string { return &s.MetricsAddress })
	text("debug-address", addressCategory, "`ADDRESS` of /debug/pprof/", func(s *settings) *string { return &s.DebugAddress })
	text("form", treeCategory, "`FORM` of the trees: striped, complete or rotate", func(s *settings) *string { return &s.Form })
	period("heartbeat", treeCategory, "`TIME` between two signs of life of a VM; after three it is dead", func(s *settings) *span { return &s.Heartbeat })
	period("idle", treeCategory, "`TIME` after which a VM that neither reads nor relays leaves its trees", func(s *settings) *span { return &s.Idle })
	flags = append(flags, &cli.IntFlag{Name: "max-functions", Category: treeCategory, Usage: "`NUMBER` of functions that a VM may be in", DefaultText: "20"})
	set["max-functions"] = func(c *cli.Context, s *settings) { s.MaxFunctions = c.Int("max-functions") }
	flags = append(flags, &cli.IntFlag{Name: "host-connections", Category: addressCategory, Usage: "`NUMBER` of connections that VMs at one address may have", DefaultText: "256"})
	set["host-connections"] = func(c *cli.Context, s *settings) { s.HostConnections = c.Int("host-connections") }
	text("key-file", identityCategory, "`FILE` with the Ed25519 key that signs function tokens, made if absent", func(s *settings) *string { return &s.KeyFile })
	list("credential-keys", identityCategory, "`FILE` with public keys of join credentials; without any, all VMs are of one tenant; may be repeated", func(s *settings) *[]string { return &s.CredentialKeys })
	flags = append(flags, &cli.BoolFlag{Name: "allow-loopback", Category: identityCategory, Usage: "accept VMs on this host that announce a loopback address"})
	set["allow-loopback"] = func(c *cli.Context, s *settings) { s.AllowLoopback = c.Bool("allow-loopback") }
	text("tls-cert", identityCategory, "`FILE` with the certificate of this server", func(s *settings) *string { return &s.TLS.Cert })
	text("tls-key", identityCategory, "`FILE` with its key", func(s *settings) *string { return &s.TLS.Key })
	text("tls-client-ca", identityCategory, "`FILE` with the CA of VMs, which need certificates then", func(s *settings) *string { return &s.TLS.ClientCA })
	list("etcd", etcdCategory, "`URL` of an etcd member that keeps the trees; may be repeated", func(s *settings) *[]string { return &s.Etcd.Endpoints })
	text("advertise", etcdCategory, "`ADDRESS` at which VMs find this coordinator, host:port", func(s *settings) *string { return &s.Etcd.Advertise })
	text("scheduler-advertise", etcdCategory, "`ADDRESS` at which schedulers that have asked another coordinator find this one", func(s *settings) *string { return &s.Etcd.Scheduler })
	text("log-level", "", "trace, debug, info, warn or error", func(s *settings) *string { return &s.LogLevel })
	flags = append(flags, &cli.PathFlag{Name: "config", Usage: "configuration `FILE`", Value: defaultConfig})
	return flags, set
}

// configured is the file with what was given on the command line.
func configured(c *cli.Context, set map[string]setter) (*settings, error) {
	s, err := load(c.Path("config"), !c.IsSet("config"))
	if err != nil {
		return nil, err
	}
	for name, to := range set {
		if c.IsSet(name) {
			to(c, s)
		}
	}
	return s, s.check()
}
