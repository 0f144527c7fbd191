package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/micro"
	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// microRegistry is a registry behind a link that is not shaped. It keeps what it
// has between runs, since converting takes long.
type microRegistry struct {
	hub    *lab.Hub
	host   *lab.Host
	server *lab.Registry
	hosts  string
	filled []string
}

// microImage is an image that a registry is filled with. Other content has
// another name.
type microImage struct {
	name   string
	layout func(ctx context.Context, dir string) (string, error)
}

func layered(l micro.Layered) microImage { return microImage{l.Name(), l.Build} }

// generated is one of the images that serve was given.
func (r *microRegistry) generated(image string) microSource {
	return microSource{r.hub, r.hosts, func(system string) string {
		return r.server.Addr + "/" + image + ":" + map[string]string{native: original, ours: converted}[system]
	}}
}

// serve fills the registry of generated images with what it lacks and starts it
// again behind its link.
func (m *micros) serve(ctx context.Context, wanted ...microImage) (err error) {
	r := &m.registry
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(i microImage) bool { return slices.Contains(r.filled, i.name) })
	if len(wanted) == 0 {
		return nil
	}
	cache, err := images.Cache()
	if err != nil {
		return err
	}
	data := filepath.Join(cache, "micro")
	if r.server != nil {
		if err := r.server.Stop(10 * time.Second); err != nil {
			return err
		}
	}
	if err := m.fill(ctx, data, wanted); err != nil {
		return err
	}
	if r.hub == nil {
		if r.hub, err = m.Hub(); err != nil {
			return err
		}
		link, err := r.hub.Link("")
		if err != nil {
			return err
		}
		if r.host, err = m.Host("origin", link); err != nil {
			return err
		}
	}
	if r.server, err = r.host.Registry(ctx, data); err != nil {
		return err
	}
	for _, i := range wanted {
		r.filled = append(r.filled, i.name)
	}
	r.hosts, err = r.server.HostsDir()
	return err
}

// fill pushes and converts images on the machine's own network.
func (m *micros) fill(ctx context.Context, data string, wanted []microImage) (err error) {
	host, err := m.Host("filler", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	r, err := host.Registry(ctx, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop(10*time.Second)) }()
	for _, i := range wanted {
		if _, err := os.Stat(filepath.Join(data, "docker/registry/v2/repositories", i.name, "_manifests/tags", converted)); err == nil {
			continue
		}
		layout, err := i.layout(ctx, host.Dir())
		if err != nil {
			return err
		}
		src, err := r.Push(ctx, layout, i.name+":"+original)
		if err != nil {
			return err
		}
		fmt.Fprintln(m.progress, "converting", i.name)
		if _, err := host.Run(ctx, filepath.Join(m.Tools().Product, "faasnet"), "convert", "--plain-http", "--quiet", src, r.Addr+"/"+i.name+":"+converted); err != nil {
			return err
		}
		if strings.HasPrefix(layout, host.Dir()) {
			if err := os.RemoveAll(layout); err != nil {
				return err
			}
		}
	}
	return nil
}
