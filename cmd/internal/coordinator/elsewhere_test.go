package coordinator

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// A scheduler that asks a coordinator which does not keep the function is told
// where to ask, if that is known.
func TestSchedulersAreRedirected(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		r := &ring{self: home}
		r.set(image, second)
		r.set("hidden", "coordinator:3")
		w.serve(home, Options{Journal: r})
		s := w.scheduler()
		calls := map[string]func(f string) error{
			"Insert": func(f string) error {
				_, err := s.Insert(t.Context(), &treepb.PlaceRequest{Function: fn(f), Vm: "vm"})
				return err
			},
			"Delete": func(f string) error {
				_, err := s.Delete(t.Context(), &treepb.PlaceRequest{Function: fn(f), Vm: "vm"})
				return err
			},
			"GetTree": func(f string) error {
				_, err := s.GetTree(t.Context(), &treepb.GetTreeRequest{Function: fn(f)})
				return err
			},
			"Watch": func(f string) error {
				stream, err := s.Watch(t.Context(), &treepb.WatchRequest{Function: fn(f)})
				if err != nil {
					return err
				}
				_, err = stream.Recv()
				return err
			},
		}
		for name, call := range calls {
			st := status.Convert(call(image))
			if len(st.Details()) != 1 || st.Code() != codes.FailedPrecondition {
				t.Errorf("%s: %v", name, st)
				continue
			}
			if to, ok := st.Details()[0].(*treepb.Redirect); !ok || to.Address != "scheduler-of-"+second || to.Function != image {
				t.Errorf("%s: sent to %v", name, st.Details()[0])
			}
			if st := status.Convert(call("hidden")); st.Code() != codes.Unavailable || len(st.Details()) != 0 {
				t.Errorf("%s of one that schedulers do not reach: %v", name, st)
			}
		}
	})
}
