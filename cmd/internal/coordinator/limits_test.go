package coordinator

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

func TestStreamsOfOneConnectionAreBounded(t *testing.T) {
	inBubble(t, func(w *world) {
		t := w.t
		w.serve(home, Options{})
		conn, err := w.net.Dial(home)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		vms := treepb.NewMembershipClient(conn)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range maxStreams {
			if _, err := vms.Attend(ctx); err != nil {
				t.Fatal(err)
			}
		}
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := vms.Attend(late); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("one stream too many: %v", err)
		}
	})
}

// A connection that nobody attends over is ended, and costs no more.
func TestIdleConnectionsEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		w.serve(home, Options{})
		conn, err := w.net.Dial(home)
		if err != nil {
			w.t.Fatal(err)
		}
		defer conn.Close()
		conn.Connect()
		time.Sleep(idle - time.Second)
		if s := conn.GetState(); s != connectivity.Ready {
			w.t.Fatalf("it is %v before its time", s)
		}
		time.Sleep(2 * time.Second)
		if s := conn.GetState(); s != connectivity.Idle {
			w.t.Errorf("after its time it is %v", s)
		}
	})
}

// An answer is counted when it is sent, and what a VM is told of others is none.
func TestAnswersAreCounted(t *testing.T) {
	inBubble(t, func(w *world) {
		reg := prometheus.NewRegistry()
		w.serve(home, Options{Registerer: reg})
		for i := range 3 {
			w.vm(i).join(w.t, image)
		}
		time.Sleep(time.Second)
		families, err := reg.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "faasnet_tree_answer_seconds" {
				if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 3 {
					w.t.Errorf("%d answers to 3 joins", n)
				}
				return
			}
		}
		w.t.Error("answers are not counted")
	})
}

// lines is a log in memory.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func TestRefusedVMsDoNotFillTheLog(t *testing.T) {
	var logged lines
	logrus.SetOutput(&logged)
	defer logrus.SetOutput(io.Discard)
	inBubble(t, func(w *world) {
		w.serve(home, Options{})
		for range 100 {
			if _, _, err := w.raw("10.9.0.1:1", &treepb.Hello{Protocol: 9, Vm: "a", Address: "10.9.0.1:7000"}); err == nil {
				w.t.Fatal("welcomed")
			}
		}
	})
	logged.mu.Lock()
	defer logged.mu.Unlock()
	if n := strings.Count(logged.String(), "VM refused"); n == 0 || n > 20 {
		t.Errorf("%d lines for 100 VMs that were refused, want 1 to 20", n)
	}
}
