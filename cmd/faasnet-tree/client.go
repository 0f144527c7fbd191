package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// callTimeout bounds one question to a coordinator.
const callTimeout = 10 * time.Second

// clientFlags say how a coordinator is asked.
func clientFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "address", Usage: "`ADDRESS` for schedulers of the coordinator, host:port or the path of a Unix socket", Value: defaultScheduler, EnvVars: []string{"FAASNET_TREE_SCHEDULER"}},
		&cli.PathFlag{Name: "tls-ca", Usage: "`FILE` with the CA of the coordinator"},
		&cli.PathFlag{Name: "tls-cert", Usage: "`FILE` with the certificate of the scheduler"},
		&cli.PathFlag{Name: "tls-key", Usage: "`FILE` with its key"},
	}
}

func tenantFlag() cli.Flag {
	return &cli.StringFlag{Name: "tenant", Usage: "`NAME` of the tenant", DefaultText: "default"}
}

// maxHops bounds how often a question is sent from one coordinator to another.
const maxHops = 3

// ask calls do with a client of the coordinator that the flags name, and then of
// the one that keeps the function, if that is another one.
func ask(c *cli.Context, do func(context.Context, treepb.SchedulerClient) error) error {
	secured, err := clientTLS(c.Path("tls-ca"), c.Path("tls-cert"), c.Path("tls-key"))
	if err != nil {
		return err
	}
	creds := insecure.NewCredentials()
	if secured != nil {
		creds = credentials.NewTLS(secured)
	}
	address := c.String("address")
	for hops := 0; ; hops++ {
		err := askOne(c.Context, address, creds, do)
		s, ok := status.FromError(err)
		if !ok || s.Code() == codes.OK {
			return err
		}
		next := redirected(s)
		if next == "" || hops == maxHops {
			return fmt.Errorf("%s: %s", address, s.Message())
		}
		address = next
	}
}

// redirected returns whom a coordinator says to ask instead.
func redirected(s *status.Status) string {
	for _, d := range s.Details() {
		if r, ok := d.(*treepb.Redirect); ok {
			return r.Address
		}
	}
	return ""
}

func askOne(ctx context.Context, address string, creds credentials.TransportCredentials, do func(context.Context, treepb.SchedulerClient) error) (err error) {
	target := "passthrough:///" + address
	if path, unix := strings.CutPrefix(address, "unix://"); unix || filepath.IsAbs(path) {
		target = "unix://" + path
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() {
		if cerr := conn.Close(); err == nil { // joined to another one it would hide the status
			err = cerr
		}
	}()
	return do(ctx, treepb.NewSchedulerClient(conn))
}
