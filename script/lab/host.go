package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is one simulated machine of a lab: a directory, a cgroup and a
// network. Safe for concurrent use once made.
type Host struct {
	lab   *Lab
	name  string
	dir   string
	group group
	procs string // file that takes processes into the host's cgroup
	net   *Net   // nil: the machine's own network
}

// Host adds a host called name, on net or, when nil, on the machine's own
// network.
func (l *Lab) Host(name string, net *Net) (*Host, error) {
	h := &Host{lab: l, name: name, dir: filepath.Join(l.dir, name), group: l.group + "/" + group(name), net: net}
	var err error
	if h.procs, err = h.group.leaf(); err != nil {
		return nil, err
	}
	return h, os.MkdirAll(h.dir, 0o755)
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Dir is the host's directory.
func (h *Host) Dir() string { return h.dir }

// Close ends the host: its processes, mounts and directory go. Idempotent; the
// lab's Close does it too.
func (h *Host) Close() error { return remove(h.dir) }

// Configuration is what the host's daemons are configured with.
func (h *Host) Configuration() (string, error) {
	var b strings.Builder
	for _, file := range []string{"registry.yml", "c/config.toml", "d/config.toml", "s/config.toml", "t/config.toml"} {
		p, err := os.ReadFile(filepath.Join(h.dir, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		b.Write(p)
	}
	return b.String(), nil
}

// CPU is the CPU time of all processes that ran on the host, containers
// included.
func (h *Host) CPU() (time.Duration, error) { return h.group.cpu() }

// Pids lists the host's processes.
func (h *Host) Pids() ([]int, error) { return h.group.pids() }

// Command prepares a program that runs on the host. It does not outlive ctx.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	wrap := []string{"-c", `echo $$ > "$0" && exec "$@"`, h.procs}
	if h.net != nil {
		wrap = append(wrap, "nsenter", "--net="+h.net.path())
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", append(append(wrap, name), args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// Run runs a program on the host and returns what it prints.
func (h *Host) Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := h.Command(ctx, name, args...)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// Proc is a long-lived process of a host.
type Proc struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // of Wait, once done is closed
}

// Start starts a program that lives until Stop, Kill or the lab's end. What
// it prints is appended to the file name.log of the host's directory.
func (h *Host) Start(name string, argv ...string) (*Proc, error) {
	p := &Proc{log: filepath.Join(h.dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = h.Command(context.Background(), argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // an interrupt at the terminal is for us alone
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process's id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// LogFile is the file with all that the process printed.
func (p *Proc) LogFile() string { return p.log }

// Kill kills the process as a crash would, and waits for its end.
func (p *Proc) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end and kills it when it has not after patience;
// that is an error.
func (p *Proc) Stop(patience time.Duration) error { return p.End(unix.SIGTERM, patience) }

// End is Stop with another signal.
func (p *Proc) End(with unix.Signal, patience time.Duration) error {
	_ = p.cmd.Process.Signal(with)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("%s does not end within %v: %w", filepath.Base(p.log), patience, os.ErrDeadlineExceeded)
	}
}

// until polls ready; the process's death ends the wait, with the end of its log.
func (p *Proc) until(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.done:
			cancel(errors.New("it ended"))
		case <-stop:
		}
	}()
	if err := until(ctx, filepath.Base(p.log), ready); err != nil {
		return fmt.Errorf("%w; its last words: %s", err, p.Tail())
	}
	return nil
}

// Tail returns the end of the process's log.
func (p *Proc) Tail() string {
	const enough = 4096
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-enough):])
}
