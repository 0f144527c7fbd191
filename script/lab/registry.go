package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/plugins/content/local"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registry is a docker-registry (distribution) of a host's.
type Registry struct {
	*Proc
	host *Host
	// Addr is host:port as image references name it. It speaks plain HTTP.
	Addr string
}

// Registry starts a registry on the host. data keeps its blobs and may hold
// some already; "" is a directory of the host's.
func (h *Host) Registry(ctx context.Context, data string) (*Registry, error) {
	if data == "" {
		data = filepath.Join(h.dir, "registry")
	}
	r := &Registry{host: h}
	if h.net != nil {
		r.Addr = h.net.Addr + ":5000"
	} else {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		r.Addr = "127.0.0.1:" + port
	}
	config := fmt.Sprintf("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\n"+
		"storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}, cache: {blobdescriptor: inmemory}}\nhttp: {addr: %q}\n", data, r.Addr)
	file := filepath.Join(h.dir, "registry.yml")
	err := os.WriteFile(file, []byte(config), 0o644)
	if err != nil {
		return nil, err
	}
	if r.Proc, err = h.Start("registry", "docker-registry", "serve", file); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return r, r.until(ctx, func() bool {
		_, err := h.Run(ctx, "/bin/bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(r.Addr, ":", "/", 1))
		return err == nil
	})
}

// startPatience is how long a daemon may take to be there; a loaded machine
// is slow.
const startPatience = time.Minute

// freePort returns a port of the loopback that was free just now.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// HostsDir writes the hosts.toml that makes containerd and our daemon speak
// plain HTTP with the registry, and returns its directory.
func (r *Registry) HostsDir() (string, error) {
	dir := filepath.Join(r.host.lab.dir, "certs.d")
	server := filepath.Join(dir, r.Addr)
	if err := os.MkdirAll(server, 0o755); err != nil {
		return "", err
	}
	toml := fmt.Sprintf("server = %q\n\n[host.%q]\ncapabilities = [\"pull\", \"resolve\", \"push\"]\n", "http://"+r.Addr, "http://"+r.Addr)
	return dir, os.WriteFile(filepath.Join(server, "hosts.toml"), []byte(toml), 0o644)
}

// Push pushes the only image of an OCI layout directory as name ("a:1") and
// returns its reference. The registry must be on the machine's own network:
// one behind a link is filled first, and started there on the same data.
func (r *Registry) Push(ctx context.Context, layout, name string) (ref string, err error) {
	if r.host.net != nil {
		return "", errors.New("push: the registry is in a namespace of its own")
	}
	p, err := os.ReadFile(filepath.Join(layout, ocispec.ImageIndexFile))
	if err != nil {
		return "", err
	}
	var index ocispec.Index
	if err := json.Unmarshal(p, &index); err != nil {
		return "", fmt.Errorf("%s: %w", layout, err)
	}
	if len(index.Manifests) != 1 {
		return "", fmt.Errorf("%s holds %d images", layout, len(index.Manifests))
	}
	cs, err := local.NewStore(layout)
	if err != nil {
		return "", err
	}
	ref = r.Addr + "/" + name
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchAllHosts))})
	pusher, err := resolver.Pusher(ctx, ref)
	if err != nil {
		return "", err
	}
	target := index.Manifests[0]
	target.Annotations = nil
	if err := remotes.PushContent(ctx, pusher, target, cs, nil, nil, func(h images.Handler) images.Handler { return h }); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return ref, nil
}
