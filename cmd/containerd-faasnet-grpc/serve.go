package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/faasnet/faasnet/cmd/internal/config"
	"github.com/faasnet/faasnet/cmd/internal/node"
	"github.com/faasnet/faasnet/cmd/internal/obs"
	"github.com/faasnet/faasnet/snapshotter"
)

// stopTimeout bounds the wait for calls that are being served when a signal comes.
const stopTimeout = 5 * time.Second

// apiWorkers are goroutines that serve calls of containerd one after the other, so that each call does not grow the stack of a new one. More
// calls at a time get one each.
const apiWorkers = 4

// serve runs the daemon until ctx ends. It removes no snapshot and unmounts
// nothing that is in use: containers outlive it.
func serve(ctx context.Context, address, root string, cfg *config.Config) (err error) {
	metrics, err := obs.NewRegistry(revision)
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, root, cfg, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	opts := []snapshotter.Opt{
		snapshotter.WithPrepareWait(time.Duration(cfg.Snapshotter.PrepareTimeout)),
		snapshotter.WithUnpackWait(time.Duration(cfg.Snapshotter.UnpackTimeout)),
		snapshotter.WithMountsWait(time.Duration(cfg.Snapshotter.MountsTimeout)),
		snapshotter.WithRegisterer(metrics),
	}
	if cfg.Snapshotter.RemapIDs {
		opts = append(opts, snapshotter.WithRemapIDs())
	}
	sn, err := snapshotter.New(ctx, filepath.Join(root, "snapshotter"), n, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()

	var alive obs.Health
	var started []func(context.Context) error
	for _, f := range []struct {
		address string
		serve   func(context.Context, net.Listener) error
	}{
		{address, func(ctx context.Context, l net.Listener) error { return serveAPI(ctx, l, sn, &alive) }},
		{cfg.MetricsAddress, pages(obs.Handler(metrics, &alive))},
		{cfg.DebugAddress, pages(obs.Profiles())},
	} {
		if f.address == "" {
			continue
		}
		l, err := obs.Listen(ctx, f.address)
		if err != nil {
			return err
		}
		defer l.Close() // where a later step fails; else it is closed by then
		started = append(started, func(ctx context.Context) error { return f.serve(ctx, l) })
	}
	log.G(ctx).WithField("address", address).WithField("version", obs.Version(revision)).Info("serving")
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range append(started, n.Run) {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

func pages(h http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error { return obs.Serve(ctx, l, h) }
}

// serveAPI serves containerd until ctx ends, and then lets calls end that are under way.
func serveAPI(ctx context.Context, l net.Listener, sn snapshots.Snapshotter, alive *obs.Health) error {
	server := grpc.NewServer(grpc.NumStreamWorkers(apiWorkers))
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(sn))
	healthy := health.NewServer()
	healthapi.RegisterHealthServer(server, healthy)

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		notify(ctx, daemon.SdNotifyStopping)
		alive.SetReady(false)
		healthy.Shutdown()
		force := time.AfterFunc(stopTimeout, server.Stop)
		defer force.Stop()
		server.GracefulStop()
	}()
	alive.SetReady(true) // the kernel takes connections from now on
	notify(ctx, daemon.SdNotifyReady)
	err := server.Serve(l)
	if ctx.Err() == nil {
		return fmt.Errorf("serve %v: %w", l.Addr(), err)
	}
	<-stopped
	return err
}

// notify tells systemd, if that started us.
func notify(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.G(ctx).WithError(err).Warn("systemd does not hear")
	}
}
