package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// CoordinatorConfig is what a lab changes of the coordinator's defaults.
type CoordinatorConfig struct {
	Form string // of trees; "": the default
}

// Coordinator is faasnet-tree on a host.
type Coordinator struct {
	*Proc
	host *Host
	dir  string
	// Addr is host:port as VMs dial it.
	Addr string
}

// Coordinator starts faasnet-tree on the host, which must have a link.
func (h *Host) Coordinator(ctx context.Context, config CoordinatorConfig) (*Coordinator, error) {
	c := &Coordinator{host: h, dir: filepath.Join(h.dir, "t"), Addr: h.net.Addr + ":7400"}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	toml := fmt.Sprintf("listen = %q\nscheduler_listen = %q\nkey_file = %q\n", c.Addr, c.scheduler(), filepath.Join(c.dir, "token.key"))
	if config.Form != "" {
		toml += fmt.Sprintf("form = %q\n", config.Form)
	}
	if err := os.WriteFile(c.config(), []byte(toml), 0o644); err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

func (c *Coordinator) scheduler() string { return filepath.Join(c.dir, "s.sock") }

func (c *Coordinator) config() string { return filepath.Join(c.dir, "config.toml") }

// Start starts it again, after Stop or Kill.
func (c *Coordinator) Start(ctx context.Context) (err error) {
	if c.Proc, err = c.host.Start("faasnet-tree", filepath.Join(c.host.lab.tools.Product, "faasnet-tree"), "--config", c.config()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return c.until(ctx, func() bool {
		conn, err := c.host.net.Dial(ctx, "tcp", c.Addr)
		return err == nil && conn.Close() == nil
	})
}

// Node is a VM's place in a function's tree.
type Node struct {
	VM        string
	Upstreams []string // VM of each stripe; "": the origin
	Depths    []uint32 // of each stripe; 0 for a root
}

// Nodes returns the places in the tree in which a VM got its place last, none
// when there is no tree.
func (c *Coordinator) Nodes(ctx context.Context) (nodes []Node, err error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	s := treepb.NewSchedulerClient(conn)
	list, err := s.ListTrees(ctx, &treepb.ListTreesRequest{})
	if err != nil {
		return nil, err
	}
	var last time.Time
	for _, sum := range list.Trees {
		tree, err := s.GetTree(ctx, &treepb.GetTreeRequest{Function: sum.Function})
		if err != nil {
			return nil, err
		}
		var all []Node
		newest := false
		for _, n := range tree.Nodes {
			all = append(all, Node{VM: n.Peer.Vm, Upstreams: n.Upstreams, Depths: n.Depths})
			if at := n.Joined.AsTime(); at.After(last) {
				last, newest = at, true
			}
		}
		if newest {
			nodes = all
		}
	}
	return nodes, nil
}

func (c *Coordinator) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+c.scheduler(), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// Reparentings counts changes of trees in which a VM got another upstream
// though it had one already.
type Reparentings struct {
	conn *grpc.ClientConn
	done chan struct{}

	mu    sync.Mutex
	count int
	err   error
}

// Reparentings counts from now on until Close.
func (c *Coordinator) Reparentings(ctx context.Context) (*Reparentings, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	stream, err := treepb.NewSchedulerClient(conn).Watch(ctx, &treepb.WatchRequest{})
	if err == nil {
		_, err = stream.Header() // the watch begins
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r := &Reparentings{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			change, err := stream.Recv()
			r.mu.Lock()
			if err != nil {
				r.err = err
				r.mu.Unlock()
				return
			}
			for _, m := range change.Moves {
				if m.Vm != change.Joined {
					r.count++
				}
			}
			r.mu.Unlock()
		}
	}()
	return r, nil
}

// Count returns how many there were, and an error when some were missed.
func (r *Reparentings) Count() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.err
}

// Close ends the watch.
func (r *Reparentings) Close() error {
	err := r.conn.Close()
	<-r.done
	return err
}
