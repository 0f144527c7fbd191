package main

import (
	"context"
	"errors"
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

// ask calls do with a client of the coordinator that the flags name.
func ask(c *cli.Context, do func(context.Context, treepb.SchedulerClient) error) (err error) {
	secured, err := clientTLS(c.Path("tls-ca"), c.Path("tls-cert"), c.Path("tls-key"))
	if err != nil {
		return err
	}
	creds := insecure.NewCredentials()
	if secured != nil {
		creds = credentials.NewTLS(secured)
	}
	target := "passthrough:///" + c.String("address")
	if path, unix := strings.CutPrefix(c.String("address"), "unix://"); unix || filepath.IsAbs(path) {
		target = "unix://" + path
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = do(c.Context, treepb.NewSchedulerClient(conn))
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return fmt.Errorf("%s: %s", c.String("address"), s.Message())
	}
	return err
}
