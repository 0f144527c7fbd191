package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
	"github.com/faasnet/faasnet/cmd/internal/coordinator/etcdjournal"
	"github.com/faasnet/faasnet/cmd/internal/obs"
	"github.com/faasnet/faasnet/cmd/internal/tree"
	"github.com/faasnet/faasnet/peer/identity"
)

// stopTimeout bounds the wait for calls that are being served when a signal
// comes.
const stopTimeout = 5 * time.Second

func serveCommand() *cli.Command {
	flags, set := serveFlags()
	return &cli.Command{
		Name:  "serve",
		Usage: "serve VMs and schedulers until SIGTERM",
		Flags: flags,
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := configured(c, set)
			if err == nil {
				err = obs.SetUpLog(s.LogLevel, s.LogFormat)
			}
			if err != nil {
				return usageError{err}
			}
			return serve(c.Context, s)
		},
	}
}

// serve runs the coordinator until ctx ends. VMs keep their places then.
func serve(ctx context.Context, s *settings) error {
	metrics, err := obs.NewRegistry(revision)
	if err != nil {
		return err
	}
	c, err := build(s, metrics)
	if err != nil {
		return err
	}
	vms, err := newServer(s.TLS.Cert, s.TLS.Key, s.TLS.ClientCA, coordinator.ServerOptions()...)
	if err != nil {
		return err
	}
	c.RegisterMembership(vms)
	schedulers, err := newServer(schedulerTLS(s))
	if err != nil {
		return err
	}
	c.RegisterScheduler(schedulers)
	var alive obs.Health
	h := health.NewServer()
	faces := []face{
		{"listen", s.Listen, grpcFace(vms, h)},
		{"scheduler_listen", s.SchedulerListen, grpcFace(schedulers, h)},
		{"metrics_address", s.MetricsAddress, pages(obs.Handler(metrics, &alive))},
		{"debug_address", s.DebugAddress, pages(obs.Profiles())},
	}
	listening, err := listen(ctx, faces)
	if err != nil {
		return err
	}
	listening[0] = coordinator.LimitHosts(listening[0], s.HostConnections)
	log.G(ctx).WithField("vms", listening[0].Addr()).WithField("schedulers", s.SchedulerListen).WithField("form", s.Form).
		WithField("etcd", s.Etcd.Endpoints).WithField("version", obs.Version(revision)).Info("serving")
	// The coordinator ends first: it tells VMs, and other coordinators, that it
	// goes. Only then do the servers.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { defer stop(); return c.Run(ctx) })
	for i, l := range listening {
		if l != nil {
			g.Go(func() error { return faces[i].serve(running, l) })
		}
	}
	alive.SetReady(true) // the kernel takes connections by now
	notify(ctx, daemon.SdNotifyReady)
	g.Go(func() error {
		<-ctx.Done()
		notify(ctx, daemon.SdNotifyStopping)
		alive.SetReady(false)
		h.Shutdown()
		return nil
	})
	return g.Wait()
}

// build makes the coordinator that the settings describe.
func build(s *settings, metrics prometheus.Registerer) (*coordinator.Coordinator, error) {
	o := coordinator.Options{
		Form: tree.Form(s.Form), Heartbeat: time.Duration(s.Heartbeat), MaxFunctions: s.MaxFunctions,
		Idle: time.Duration(s.Idle), Settle: time.Duration(s.Settle), TokenTTL: time.Duration(s.TokenTTL),
		AllowLoopback: s.AllowLoopback, Registerer: metrics,
	}
	var err error
	if o.Key, err = loadKey(s.KeyFile); err != nil {
		return nil, err
	}
	keys, err := loadPublic(s.CredentialKeys)
	if err != nil {
		return nil, err
	}
	o.Credentials = identity.Verifier{Keys: keys}
	if len(s.Etcd.Endpoints) > 0 {
		secured, err := clientTLS(s.Etcd.CA, s.Etcd.Cert, s.Etcd.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		if o.Journal, err = etcdjournal.New(etcdjournal.Options{
			Endpoints: s.Etcd.Endpoints, Self: s.advertise(), Scheduler: s.schedulerAdvertise(), Prefix: s.Etcd.Prefix, TTL: time.Duration(s.Etcd.TTL), TLS: secured, Registerer: metrics,
		}); err != nil {
			return nil, err
		}
	}
	return coordinator.New(o)
}

// schedulerTLS is none where only this host reaches the address.
func schedulerTLS(s *settings) (cert, key, clientCA string) {
	if s.TLS.SchedulerClientCA == "" {
		return "", "", ""
	}
	return s.TLS.Cert, s.TLS.Key, s.TLS.SchedulerClientCA
}

func newServer(cert, key, clientCA string, opts ...grpc.ServerOption) (*grpc.Server, error) {
	var secured *tls.Config
	secured, err := serverTLS(cert, key, clientCA)
	if err != nil {
		return nil, err
	}
	if secured != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(secured)))
	}
	return grpc.NewServer(opts...), nil
}

// face is something that is served at an address, "" for not at all.
type face struct {
	key     string // of the configuration
	address string
	serve   func(context.Context, net.Listener) error
}

func listen(ctx context.Context, faces []face) (ls []net.Listener, err error) {
	for _, f := range faces {
		var l net.Listener
		if f.address != "" {
			if l, err = obs.Listen(ctx, f.address); err != nil {
				for _, l := range ls {
					if l != nil {
						l.Close()
					}
				}
				return nil, fmt.Errorf("%s: %w", f.key, err)
			}
		}
		ls = append(ls, l)
	}
	return ls, nil
}

func pages(h http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error { return obs.Serve(ctx, l, h) }
}

// grpcFace serves s until ctx ends, and then lets calls end that are under way.
func grpcFace(s *grpc.Server, h *health.Server) func(context.Context, net.Listener) error {
	healthapi.RegisterHealthServer(s, h)
	reflection.Register(s)
	return func(ctx context.Context, l net.Listener) error {
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			<-ctx.Done()
			force := time.AfterFunc(stopTimeout, s.Stop)
			defer force.Stop()
			s.GracefulStop()
		}()
		err := s.Serve(l)
		if ctx.Err() == nil {
			return fmt.Errorf("serve %v: %w", l.Addr(), err)
		}
		<-stopped
		return err
	}
}

// notify tells systemd, if that started us.
func notify(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("systemd does not hear")
	}
}
