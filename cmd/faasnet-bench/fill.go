package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/reference"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

const repository = "function"

// The registry's tags.
const (
	original  = rivals.Original
	converted = rivals.Converted
)

// site is a bench with one image in a registry behind a link.
type site struct {
	image    string
	data     string // what the registry keeps; "": only for this run
	reuse    bool   // layers that data has converted already
	recorded bool   // make recorded conversions, too
	systems  []rivals.System
	programs string // of systems
	progress io.Writer

	*bench
	hub        *lab.Hub
	origin     *lab.Net
	originHost *lab.Host
	server     *lab.Registry
	hosts      string
}

// checkImage refuses what can be no image, before anything is started.
func checkImage(name string) error {
	if images.IsName(name) {
		return nil
	}
	spec, err := reference.Parse(name)
	if err == nil && spec.Object == "" {
		err = reference.ErrObjectRequired
	}
	if err != nil {
		return usagef("image %q is neither one of %s nor a reference such as registry.example/fn:1: %w", name, strings.Join(append(images.Names(), images.Small()...), ", "), err)
	}
	return nil
}

// prepare fills the registry and starts it behind a link of the rate.
func (s *site) prepare(ctx context.Context, rate string) error {
	data, err := s.fill(ctx)
	if err != nil {
		return err
	}
	if s.hub, err = s.Hub(); err != nil {
		return err
	}
	if s.origin, err = s.hub.Link(rate); err != nil {
		return err
	}
	if s.originHost, err = s.Host("origin", s.origin); err != nil {
		return err
	}
	if s.server, err = s.originHost.Registry(ctx, data); err != nil {
		return err
	}
	s.hosts, err = s.server.HostsDir()
	return err
}

// ref is the image's reference with the tag.
func (s *site) ref(tag string) string { return s.server.Addr + "/" + repository + ":" + tag }

// fill starts a registry on the machine's own network, where nothing is
// shaped, pushes the image and its conversion, and returns the directory that
// keeps them.
func (s *site) fill(ctx context.Context) (data string, err error) {
	host, err := s.Host("filler", nil)
	if err != nil {
		return "", err
	}
	if s.data == "" {
		s.data = filepath.Join(host.Dir(), "registry")
	}
	r, err := host.Registry(ctx, s.data)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Stop(10*time.Second)) }()
	layout := filepath.Join(host.Dir(), "layout")
	if images.IsName(s.image) {
		if layout, err = buildImage(ctx, s.image); err != nil {
			return "", err
		}
	} else if err := lab.Fetch(ctx, s.image, layout); err != nil {
		return "", err
	}
	src, err := r.Push(ctx, layout, repository+":"+original)
	if err != nil {
		return "", err
	}
	if err := s.convert(ctx, host, r, s.image, src, r.Addr+"/"+repository+":"+converted); err != nil {
		return "", err
	}
	if err := s.fillFor(ctx, host, r, src); err != nil {
		return "", err
	}
	return s.data, os.RemoveAll(filepath.Join(host.Dir(), "layout"))
}

// convert converts the image that the registry r has as src to dst, and, where
// they are wanted, to the recorded form of dst.
func (s *site) convert(ctx context.Context, h *lab.Host, r *lab.Registry, image, src, dst string, flags ...string) error {
	run := func(flags ...string) error {
		argv := append([]string{"convert", "--plain-http", "--quiet"}, flags...)
		out, err := h.Run(ctx, filepath.Join(s.Tools().Product, "faasnet"), argv...)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		fmt.Fprintln(s.progress, lines[len(lines)-1])
		return nil
	}
	fmt.Fprintf(s.progress, "converting %s\n", image)
	plain := flags
	if !s.reuse {
		plain = append([]string{"--no-reuse"}, flags...)
	}
	if err := run(append(plain[:len(plain):len(plain)], src, dst)...); err != nil || !s.recorded {
		return err
	}
	record, err := s.record(ctx, h, r, image, src)
	if err != nil {
		return fmt.Errorf("record image %s: %w", image, err)
	}
	fmt.Fprintf(s.progress, "converting %s with what its start reads\n", image)
	return run(append(flags[:len(flags):len(flags)], "--record-in", record, "--reuse", dst, src, dst+rivals.Recorded)...)
}
