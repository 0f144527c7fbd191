package snapshotter

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/proxy"
	"github.com/containerd/containerd/v2/core/snapshots/testsuite"
	"github.com/containerd/containerd/v2/plugins/content/local"
	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/faasnet/faasnet/snapshotter/snapshottertest"
)

// The name tells the suite which quirks of overlayfs to expect.
const suiteName = "overlayfs"

func TestSuite(t *testing.T) {
	testsuite.SnapshotterSuite(t, suiteName, func(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
		s, err := New(ctx, root, &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt")})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	})
}

func TestSuiteProxy(t *testing.T) {
	testsuite.SnapshotterSuite(t, suiteName, func(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
		s, err := New(ctx, root, &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt")})
		if err != nil {
			return nil, nil, err
		}
		p, stop, err := serve(s, filepath.Join(root, "sock"))
		if err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
		return p, func() error { return errors.Join(stop(), s.Close()) }, nil
	})
}

func TestSuiteMetadata(t *testing.T) {
	testsuite.SnapshotterSuite(t, suiteName, func(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
		s, err := New(ctx, root, &snapshottertest.Mounter{Dir: filepath.Join(root, "mnt")})
		if err != nil {
			return nil, nil, err
		}
		db, stop, err := database(ctx, root, s)
		if err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
		return db.Snapshotter(suiteName), func() error { return errors.Join(stop(), s.Close()) }, nil
	})
}

// serve puts s behind a proxy as containerd does with a proxy plugin.
func serve(s snapshots.Snapshotter, socket string) (snapshots.Snapshotter, func() error, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(s))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		server.Stop()
		return nil, nil, errors.Join(err, <-done)
	}
	stop := func() error {
		err := conn.Close()
		server.Stop()
		return errors.Join(err, <-done)
	}
	return proxy.NewSnapshotter(snapshotsapi.NewSnapshotsClient(conn), suiteName), stop, nil
}

// database is containerd's metadata, which has namespaces and rewrites keys, over s.
func database(ctx context.Context, dir string, s snapshots.Snapshotter) (*metadata.DB, func() error, error) {
	file, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return nil, nil, err
	}
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	db := metadata.NewDB(file, cs, map[string]snapshots.Snapshotter{suiteName: s})
	if err := db.Init(ctx); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return db, file.Close, nil
}
