package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/faasnet/faasnet/treeclient"
	"github.com/faasnet/faasnet/treeclient/treepb"
)

// netns is a network namespace without a name: it goes with the test.
type netns struct {
	t *testing.T
	f *os.File
}

func newNetns(t *testing.T) *netns {
	t.Helper()
	type result struct {
		f   *os.File
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{nil, err}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		made <- result{f, err}
	}()
	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.f.Close() })
	n := &netns{t, r.f}
	n.ip("link set lo up")
	return n
}

func (n *netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.f.Fd()) }

func (n *netns) ip(args string) {
	n.t.Helper()
	argv := append([]string{"--net=" + n.path(), "ip"}, strings.Fields(args)...)
	if out, err := exec.Command("nsenter", argv...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// listen listens in the namespace.
func (n *netns) listen(address string) net.Listener {
	n.t.Helper()
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.f.Fd()), unix.CLONE_NEWNET); err != nil {
			made <- result{nil, err}
			return
		}
		l, err := net.Listen("tcp4", address)
		made <- result{l, err}
	}()
	r := <-made
	if r.err != nil {
		n.t.Fatal(r.err)
	}
	return r.l
}

// fleetNet is a coordinator on a bridge, and a VM that has lo, a bridge of
// containers and eth0.
func fleetNet(t *testing.T) (c *Coordinator, vm *netns) {
	t.Helper()
	hub := newNetns(t)
	vm = newNetns(t)
	hub.ip("link add br0 type bridge")
	hub.ip("addr add 10.9.0.254/16 dev br0")
	hub.ip("link set br0 up")
	hub.ip("link add p1 type veth peer name eth0 netns " + vm.path())
	hub.ip("link set p1 master br0 up")
	vm.ip("link add docker0 type bridge") // first: so it has the lowest index after lo
	vm.ip("addr add 172.17.0.1/16 dev docker0")
	vm.ip("link set docker0 up")
	vm.ip("addr add 10.9.0.7/16 dev eth0")
	vm.ip("link set eth0 up")
	c, err := New(Options{Key: testKey(), AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(ServerOptions()...)
	c.RegisterMembership(s)
	l := hub.listen("10.9.0.254:7400")
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c, vm
}

// helper runs this test binary as a VM in the namespace and returns what it
// says first.
func (n *netns) helper(role, address string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	n.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+n.path(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "FAASNET_TEST_VM="+role, "FAASNET_TEST_ADDRESS="+address)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		stdin.Close() // it ends then
		if err := cmd.Wait(); err != nil {
			n.t.Error(err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// helperVM is what the helper does. It says one line and waits for the end of
// its input.
func helperVM(role, address string) {
	const coordinator = "10.9.0.254:7400"
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	switch role {
	case "client":
		c, err := treeclient.New(treeclient.Options{Coordinators: []string{coordinator}, VM: "vm", Address: address, Wait: 20 * time.Second})
		if err != nil {
			fmt.Println(err)
			return
		}
		go c.Run(ctx)
		for err = fmt.Errorf("not tried"); err != nil && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			_, err = c.Join(ctx, image)
		}
		fmt.Println("joined", err)
	case "hello":
		conn, err := grpc.NewClient("passthrough:///"+coordinator, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			var s treepb.Membership_AttendClient
			if s, err = treepb.NewMembershipClient(conn).Attend(ctx); err == nil {
				s.Send(&treepb.FromVM{Message: &treepb.FromVM_Hello{Hello: &treepb.Hello{Protocol: 1, Vm: "vm", Address: address}}})
				_, err = s.Recv()
			}
		}
		fmt.Println(status.Code(err))
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestPN12_AnnouncedAddress(t *testing.T) {
	for address, want := range map[string]string{
		":7000":          "10.9.0.7:7000",
		"0.0.0.0:7000":   "10.9.0.7:7000",
		"10.9.0.7:7001":  "10.9.0.7:7001",
		"172.17.0.1:702": "172.17.0.1:702", // whoever configures it has a reason
	} {
		t.Run("PN-12 "+address, func(t *testing.T) {
			c, vm := fleetNet(t)
			if got := vm.helper("client", address); got != "joined <nil>" {
				t.Fatal(got)
			}
			n := nodeOf(c.Tree(Key{DefaultTenant, image}), "vm")
			if n.GetPeer().GetAddress() != want {
				t.Errorf("announced %q, want %q", n.GetPeer().GetAddress(), want)
			}
		})
	}
	for _, address := range []string{"127.0.0.1:7000", "[::1]:7000", "0.0.0.0:7000", "[::]:7000"} {
		t.Run("PN-12 refused "+address, func(t *testing.T) {
			_, vm := fleetNet(t)
			if got := vm.helper("hello", address); got != codes.InvalidArgument.String() {
				t.Errorf("the coordinator says %s", got)
			}
		})
	}
}
