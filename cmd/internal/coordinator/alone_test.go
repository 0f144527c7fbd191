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

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// aloneEnv makes the test binary a coordinator and nothing else.
const aloneEnv = "FAASNET_TEST_ALONE"

// serveAlone serves VMs on the loopback interface, whose address it prints,
// until its standard input ends. For each line of that it prints, in seconds, the
// median and the 99th percentile of its answers to joins since the line before.
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
	answers := &observed{Histogram: c.metrics.answer}
	c.metrics.answer = answers
	go s.Serve(l)
	go c.Run(context.Background())
	fmt.Println(l.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		took := answers.take()
		fmt.Println(quantile(took, 50).Seconds(), quantile(took, 99).Seconds())
	}
}

// observed keeps what a histogram would count.
type observed struct {
	prometheus.Histogram
	mu   sync.Mutex
	took []time.Duration
}

func (o *observed) Observe(v float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took = append(o.took, time.Duration(v*float64(time.Second)))
}

func (o *observed) take() (took []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	took, o.took = o.took, nil
	return took
}

func quantile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return percentile(d, p)
}

// process is a coordinator in a process of its own that may use one core.
type process struct {
	b       *testing.B
	address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func alone(b *testing.B) *process {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &process{b: b, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), aloneEnv+"=1", "GOMAXPROCS=1")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		p.in.Close()
		p.cmd.Wait()
	})
	p.address = p.line()
	return p
}

func (p *process) line() string {
	p.b.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// answers returns how long the coordinator's answers took, in seconds, since the
// last call.
func (p *process) answers() (p50, p99 float64) {
	p.b.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.b.Fatal(err)
	}
	if _, err := fmt.Sscan(p.line(), &p50, &p99); err != nil {
		p.b.Fatal(err)
	}
	return p50, p99
}

func (p *process) cpu() time.Duration { return cpuOf(p.b, p.cmd.Process.Pid) }

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
// has one core. Reported are the coordinator's time from the receipt of a join until
// its place is sent, its CPU time for all of it, how long a VM waits for its first
// place from the moment that all begin, how many places each VM is told, and the
// CPU time of the 1,000 VMs, whose own work is in their waits: they have the other
// cores.
func BenchmarkCrowd(b *testing.B) {
	const joins, leaves = 1000, 300
	p := alone(b)
	sums := map[string]float64{}
	for b.Loop() {
		b.StopTimer()
		cr := &crowdOfVMs{t: b}
		for range joins {
			conn, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10), // as treeclient dials
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
		p.answers()
		b.StartTimer()
		before, own := p.cpu(), cpuOf(b, os.Getpid())
		began = time.Now()
		close(start)
		wg.Wait()
		b.StopTimer()
		sums["coordinator-cpu-ms"] += ms(p.cpu() - before)
		sums["vms-cpu-ms"] += ms(cpuOf(b, os.Getpid()) - own)
		p50, p99 := p.answers()
		sums["answer-median-ms"] += 1e3 * p50
		sums["answer-p99-ms"] += 1e3 * p99
		cancel()
		reads.Wait()
		for _, a := range vms {
			sums["places/VM"] += float64(a.told) / joins
		}
		for _, c := range cr.conns {
			c.Close()
		}
		sums["wait-median-ms"] += ms(percentile(took, 50))
		sums["wait-p99-ms"] += ms(percentile(took, 99))
		b.StartTimer()
	}
	for unit, sum := range sums {
		b.ReportMetric(sum/float64(b.N), unit)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
