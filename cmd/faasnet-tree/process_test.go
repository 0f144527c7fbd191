package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/cmd/internal/coordinator/etcdjournal/etcdtest"
	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// process is the program as a process of its own.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	args           []string
	env            []string
	vms, scheduler string
	stderr         *safeBuffer
}

func newProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{t: t, env: env, vms: freeAddress(t), scheduler: filepath.Join(dir, "s.sock"), stderr: &safeBuffer{}}
	p.args = append([]string{
		"--listen", p.vms, "--scheduler-listen", p.scheduler, "--scheduler-advertise", p.scheduler, "--key-file", filepath.Join(dir, "token.key"), "--allow-loopback", "--heartbeat", "2s",
	}, args...)
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		if t.Failed() {
			t.Log(p.stderr.String())
		}
	})
	return p
}

func (p *process) run() *process {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(append(os.Environ(), "FAASNET_TREE_MAIN=1"), p.env...)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	until(p.t, "it serves", func() bool {
		c, err := net.Dial("tcp", p.vms)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return p
}

// signal ends the process and returns its exit code. Again is nothing.
func (p *process) signal(s syscall.Signal) int {
	if p.cmd == nil {
		return 0
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
	_ = p.cmd.Wait() // the code says it
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

// tree is the tree of a function, nil if there is none here.
func (p *process) tree(f string) *treepb.Tree {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	t, err := treepb.NewSchedulerClient(dial(p.t, "unix://"+p.scheduler)).GetTree(ctx, &treepb.GetTreeRequest{Function: &treepb.Function{Id: f}})
	if err != nil && !slices.Contains([]codes.Code{codes.NotFound, codes.Unavailable, codes.FailedPrecondition}, status.Code(err)) {
		p.t.Fatal(err)
	}
	return t
}

// fleet is n VMs that have places in f.
func fleet(t *testing.T, n int, f string, coordinators ...string) (vms []*treeclient.Client) {
	t.Helper()
	for i := range n {
		c, _ := vm(t, fmt.Sprint("vm", i), func(o *treeclient.Options) {
			o.Address = fmt.Sprintf("127.0.0.1:%d", 7000+i)
			o.Held = func(string) uint64 { return 10 }
		}, coordinators...)
		join(t, c, f)
		vms = append(vms, c)
	}
	return vms
}

// keep fails when a VM is without a place before what it returns is called.
func keep(t *testing.T, vms []*treeclient.Client, f string) (stop func()) {
	t.Helper()
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for i, v := range vms {
				if _, ok := v.Place(f); !ok {
					t.Errorf("vm%d has no place", i)
					return
				}
			}
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

func TestCO03_KilledAndStartedAgainWithEmptyState(t *testing.T) {
	const f = "sha256:f"
	p := newProcess(t, nil).run()
	vms := fleet(t, 8, f, p.vms)
	kept := keep(t, vms, f)
	defer kept()
	p.signal(syscall.SIGKILL)
	time.Sleep(3 * time.Second)
	p.run()
	took := until(t, "all VMs are back", func() bool { return len(p.tree(f).GetNodes()) == len(vms) })
	t.Logf("all VMs are back %v after the restart", took)
	kept()
}

func TestKilledOwner(t *testing.T) {
	e := etcdtest.Start(t)
	var ps []*process
	var addresses []string
	for range 3 {
		p := newProcess(t, nil, "--etcd", e.Endpoint, "--config", configFile(t, "settle = \"20s\"")) // a slow machine moves nobody
		p.run()
		ps, addresses = append(ps, p), append(addresses, p.vms)
	}
	until(t, "the coordinators see each other", func() bool {
		return !slices.ContainsFunc(ps, func(p *process) bool {
			return strings.Count(last(p.stderr.String(), "coordinators live"), "127.0.0.1:") != 3
		})
	})
	const f = "sha256:f"
	vms := fleet(t, 6, f, addresses...)
	kept := keep(t, vms, f)
	defer kept()
	owner := slices.IndexFunc(ps, func(p *process) bool { return p.tree(f) != nil })
	if owner < 0 || len(ps[owner].tree(f).GetNodes()) != len(vms) {
		t.Fatal("no coordinator has the tree")
	}
	for _, p := range ps { // whoever is asked
		if code, out, errs := call(t, "tree", "--address", p.scheduler, f); code != exitOK || !strings.Contains(out, "6 VMs") {
			t.Errorf("tree: exit %d, %s%s", code, out, errs)
		}
	}
	before := ps[owner].tree(f)
	time.Sleep(1500 * time.Millisecond) // more than a pace: the tree is in etcd
	ps[owner].signal(syscall.SIGKILL)
	var heir *process
	took := until(t, "another one has all VMs", func() bool {
		for i, p := range ps {
			if i != owner && len(p.tree(f).GetNodes()) == len(vms) {
				heir = p
				return true
			}
		}
		return false
	})
	t.Logf("all VMs are at the heir %v after the kill", took)
	for _, n := range heir.tree(f).Nodes {
		for _, was := range before.Nodes {
			if was.Peer.Vm == n.Peer.Vm && !slices.Equal(was.Upstreams, n.Upstreams) {
				t.Errorf("%s read from %q and reads from %q", n.Peer.Vm, was.Upstreams, n.Upstreams)
			}
		}
	}
	kept()
}

// last returns the last line that holds a text.
func last(lines, text string) (found string) {
	for l := range strings.Lines(lines) {
		if strings.Contains(l, text) {
			found = l
		}
	}
	return found
}

func TestSignalsAndSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := func() string {
		p := make([]byte, 100)
		l.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := l.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(p[:n]))
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := newProcess(t, []string{"NOTIFY_SOCKET=" + socket}).run()
		if got := said(); got != "READY=1" {
			t.Errorf("systemd hears %q", got)
		}
		v, _ := vm(t, "a", nil, p.vms)
		join(t, v, "f")
		if code := p.signal(s); code != exitOK {
			t.Errorf("%v: exit %d", s, code)
		}
		if got := said(); got != "STOPPING=1" {
			t.Errorf("systemd hears %q", got)
		}
		if _, ok := v.Place("f"); !ok {
			t.Error("the VM has lost its place")
		}
	}
}
