package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

// state is the letter that the kernel has for what a process does.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat := string(try[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))))
	return strings.Fields(stat[strings.LastIndex(stat, ")")+1:])[0]
}

func TestFaults(t *testing.T) {
	l := newLab(t)
	hub := try[*Hub](t)(l.Hub())
	link := try[*Net](t)(hub.Link("100mbit"))
	vm := &VM{Host: try[*Host](t)(l.Host("vm", link)), Net: link}
	other := try[*Net](t)(hub.Link(""))
	p := try[*Proc](t)(vm.Start("sleeper", "sleep", "600"))

	listener := try[net.Listener](t)(link.Listen(t.Context(), "tcp", link.Addr+":7"))
	defer listener.Close()
	reaches := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := other.Dial(ctx, "tcp", link.Addr+":7")
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := reaches(time.Minute); err != nil {
		t.Fatal(err)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(vm.Fail(LinkDown))
	if reaches(200*time.Millisecond) == nil {
		t.Error("a VM whose link is down answers")
	}
	must(vm.Heal(LinkDown))
	must(reaches(time.Minute))

	must(vm.Fail(Stop))
	must(until(t.Context(), "stop", func() bool { return state(t, p.Pid()) == "T" }))
	must(reaches(time.Minute)) // by the kernel
	must(vm.Heal(Stop))
	must(until(t.Context(), "go on", func() bool { return state(t, p.Pid()) != "T" }))
	must(vm.Fail(Stop))
	must(vm.Fail(Kill)) // frozen processes die, too
	<-p.done
	if err := vm.Fail("flood"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("unknown fault: %v", err)
	}
	if err := vm.Heal(Kill); !errdefs.IsInvalidArgument(err) {
		t.Errorf("healed a kill: %v", err)
	}

	must(link.SetRate("200mbit"))
	out := try[string](t)(vm.Run(t.Context(), "tc", "qdisc", "show", "dev", "eth0"))
	if !strings.Contains(out, "200Mbit") {
		t.Errorf("queue of the link is %s", out)
	}
	received := try[int64](t)(link.Received())
	if received == 0 {
		t.Error("the VM received nothing")
	}
	must(listener.Close())
	must(vm.Close())
	must(vm.Close())
	if out, err := vm.Run(t.Context(), "true"); err == nil {
		t.Errorf("a closed VM runs programs: %s", out)
	}
	must(until(t.Context(), "port", func() bool { return hub.net.run("ip", "link", "show", "dev", link.port) != nil }))
}
