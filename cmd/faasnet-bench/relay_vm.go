package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/wires"
	"github.com/faasnet/faasnet/script/lab"
)

// relayVM is a VM of a relay: this program, run again on a host of its own,
// which does what it is told on its standard input.
type relayVM struct {
	net     *lab.Net
	host    *lab.Host
	address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  strings.Builder
}

// newRelayVM starts a VM that reads from the last of those above it, if any.
func (r *relays) newRelayVM(ctx context.Context, hub *lab.Hub, protocol, name string, above []*relayVM) (*relayVM, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &relayVM{}
	if v.net, err = hub.Link(r.rate); err != nil {
		return nil, err
	}
	if v.host, err = r.Host(name, v.net); err != nil {
		return v, err
	}
	v.address = v.net.Addr + ":7000"
	args := []string{relayVMName, "--protocol", protocol, "--name", name, "--dir", v.host.Dir(), "--address", v.address, "--blocks", strconv.Itoa(r.blocks)}
	if n := len(above); n > 0 {
		args = append(args, "--above", above[n-1].host.Name(), "--upstream", above[n-1].address)
	}
	v.cmd = v.host.Command(ctx, self, args...)
	v.cmd.Stderr = &v.stderr
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return v, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return v, err
	}
	v.out = bufio.NewReader(out)
	if err := v.cmd.Start(); err != nil {
		return v, err
	}
	_, err = v.answer()
	return v, err
}

// do has the VM do something to its end, and returns how many bytes that were.
func (v *relayVM) do(what string) (n int64, err error) {
	if _, err := io.WriteString(v.in, what+"\n"); err != nil {
		return 0, err
	}
	return v.answer()
}

func (v *relayVM) answer() (n int64, err error) {
	line, err := v.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("%s ended: %w: %s", v.host.Name(), err, v.stderr.String())
	}
	if _, err := fmt.Sscanf(line, "did %d\n", &n); err != nil {
		return 0, fmt.Errorf("%s: %s", v.host.Name(), line)
	}
	return n, nil
}

func (v *relayVM) close() (err error) {
	if v.host != nil {
		err = v.host.Close()
	}
	if v.cmd != nil && v.cmd.Process != nil {
		_ = v.cmd.Wait() // it was killed
	}
	return errors.Join(err, v.net.Close())
}

const relayVMName = "relay-vm"

// relayVMCommand is what a relayVM runs.
func relayVMCommand() *cli.Command {
	return &cli.Command{
		Name: relayVMName, Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "protocol"}, &cli.StringFlag{Name: "name"}, &cli.StringFlag{Name: "dir"}, &cli.StringFlag{Name: "address"},
			&cli.StringFlag{Name: "above"}, &cli.StringFlag{Name: "upstream"}, &cli.IntFlag{Name: "blocks"},
		},
		Action: func(c *cli.Context) error {
			config := wires.Config{Name: c.String("name"), Protocol: c.String("protocol"), Dir: c.String("dir"), Above: c.String("above"), Upstream: c.String("upstream")}
			return serveRelay(c.Context, config, c.String("address"), c.Int("blocks"), os.Stdin, c.App.Writer)
		},
	}
}

// serveRelay does what it reads until there is no more.
func serveRelay(ctx context.Context, config wires.Config, address string, blocks int, in io.Reader, out io.Writer) (err error) {
	load, err := wires.NewLoad(blocks)
	if err != nil {
		return err
	}
	vm, err := wires.Open(ctx, config, load)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	sctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- vm.Serve(sctx, l) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	fmt.Fprintln(out, "did 0")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case "read":
			err = vm.Read(ctx)
		case "gather":
			err = vm.Gather(ctx)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "did", load.Bytes())
	}
	return nil
}
