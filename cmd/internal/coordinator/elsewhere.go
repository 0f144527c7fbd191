package coordinator

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// elsewhere says that another coordinator keeps a function, nil where this one
// does. A scheduler is told where to ask, if that is known: a Redirect is among the
// details of the status.
func (c *Coordinator) elsewhere(k Key) error {
	owner := c.opts.Journal.Owner(k, nil)
	if owner == "" {
		return nil
	}
	at := c.opts.Journal.Scheduler(owner)
	if at == "" {
		return errgrpc.ToGRPC(fmt.Errorf("coordinator %s keeps %s, and does not say where schedulers reach it: %w", owner, k.Function, errdefs.ErrUnavailable))
	}
	s := status.Newf(codes.FailedPrecondition, "coordinator %s keeps %s, schedulers reach it at %s", owner, k.Function, at)
	if detailed, err := s.WithDetails(&treepb.Redirect{Function: k.Function, Address: at}); err == nil {
		s = detailed
	}
	return s.Err()
}
