package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// aloneEnv makes the test binary a coordinator and nothing else.
const aloneEnv = "FAASNET_TEST_ALONE"

// serveAlone serves VMs on the loopback interface, whose address it prints,
// until its standard input ends.
func serveAlone() {
	c, err := New(Options{Key: testKey(), Heartbeat: time.Hour})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer(ServerOptions()...)
	c.RegisterMembership(s)
	go s.Serve(l)
	go c.Run(context.Background())
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// alone starts a coordinator in a process of its own that may use one core.
func alone(b *testing.B) (address string, cpu func() time.Duration) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), aloneEnv+"=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line), func() time.Duration { return cpuOf(b, cmd.Process.Pid) }
}

// cpuOf returns the CPU time that the threads of a process have used.
func cpuOf(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(stats) == 0 {
		b.Fatal("no threads", err)
	}
	for _, s := range stats {
		var ns int64
		p, err := os.ReadFile(s)
		if err == nil {
			_, err = fmt.Sscan(string(p), &ns)
		}
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// BenchmarkCrowd is 1,000 VMs, each with a connection of its own, that join one
// function at the same moment, while 300 of them leave it again. The coordinator
// has one core. What is reported is how long a VM waits for its first place,
// from the moment that all begin, and the coordinator's CPU time for all of it;
// the VMs have the other cores, and their own work is in the waits. Each VM is told
// so many places.
func BenchmarkCrowd(b *testing.B) {
	const joins, leaves = 1000, 300
	address, cpu := alone(b)
	var p50, p99, spent time.Duration
	told := 0
	for b.Loop() {
		b.StopTimer()
		cr := &crowdOfVMs{t: b}
		for range joins {
			conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10))
			if err != nil {
				b.Fatal(err)
			}
			cr.conns = append(cr.conns, conn)
		}
		ctx, cancel := context.WithCancel(b.Context())
		vms := make([]*attendee, joins)
		took := make([]time.Duration, joins)
		var wg, reads sync.WaitGroup
		start := make(chan struct{})
		var began time.Time
		for i := range vms {
			a, err := cr.attend(ctx, i)
			if err != nil {
				b.Fatal(err)
			}
			reads.Go(a.read)
			vms[i] = a
			wg.Go(func() {
				<-start
				if err := a.join(image); err != nil {
					b.Error(err)
				}
				took[i] = (<-a.first).Sub(began)
				if i < leaves {
					if err := a.leave(image); err != nil {
						b.Error(err)
					}
				}
			})
		}
		b.StartTimer()
		before := cpu()
		began = time.Now()
		close(start)
		wg.Wait()
		b.StopTimer()
		spent += cpu() - before
		cancel()
		reads.Wait()
		for _, a := range vms {
			told += a.told
		}
		for _, c := range cr.conns {
			c.Close()
		}
		b.StartTimer()
		p50, p99 = p50+percentile(took, 50), p99+percentile(took, 99)
	}
	for unit, sum := range map[string]time.Duration{"median-ms": p50, "p99-ms": p99, "coordinator-cpu-ms": spent} {
		b.ReportMetric(float64(sum.Microseconds())/1e3/float64(b.N), unit)
	}
	b.ReportMetric(float64(told)/joins/float64(b.N), "places/VM")
}
