package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/endpoint"
	"github.com/faasnet/faasnet/fs/registry"
)

// placesHelp is the part of a help text that tells what an image name may be.
const placesHelp = `An image is named by one of
   REFERENCE, docker://REFERENCE    an image in a registry
   oci:DIR[:NAME]                   in an OCI layout directory
   oci-archive:FILE[:NAME]          in an OCI archive, which may be compressed
   docker-archive:FILE[:NAME]       in an archive of docker save
   containerd://IMAGE               in containerd, see --address and --namespace
A path of a layout or archive needs no prefix if it exists, begins with / or .
or ends in .tar. NAME selects one of several images: a name, a tag or a digest.`

// registryFlags say how registries are reached.
func registryFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "plain-http", Usage: "speak http to the registries of the images named"},
		&cli.BoolFlag{Name: "insecure", Usage: "do not check the certificates of the registries of the images named"},
		&cli.StringSliceFlag{Name: "hosts-dir", Usage: "`DIR` with hosts.toml files and certificates of registries, laid out as containerd's certs.d; may be repeated", Value: cli.NewStringSlice("/etc/containerd/certs.d")},
		&cli.StringFlag{Name: "docker-config", Usage: "`DIR` with Docker's config.json, for credentials", Value: dockerConfig(), EnvVars: []string{"DOCKER_CONFIG"}, DefaultText: "$HOME/.docker"},
	}
}

// containerdFlags say how containerd is reached.
func containerdFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "address", Usage: "containerd's `SOCKET`", Value: defaults.DefaultAddress, EnvVars: []string{"CONTAINERD_ADDRESS"}},
		&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "`NAMESPACE` of containerd", Value: "default", EnvVars: []string{"CONTAINERD_NAMESPACE"}},
	}
}

func workFlag() cli.Flag {
	return &cli.StringFlag{Name: "work-dir", Usage: "`DIR` for temporary files, which are removed at the end", Value: os.TempDir(), DefaultText: "$TMPDIR, else /tmp"}
}

func dockerConfig() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// session is what a command needs to reach images. Close it.
type session struct {
	*endpoint.Places
	registry   *registry.Client
	containerd *containerd.Client
}

// open makes the session of a command that names these images.
func open(c *cli.Context, names ...endpoint.Name) (_ *session, err error) {
	s := &session{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.registry, err = newRegistry(c, names...); err != nil {
		return nil, err
	}
	s.Places = &endpoint.Places{
		Resolver:   s.registry.Resolver(),
		Blobs:      s.registry.Blobs,
		Containerd: func() (*containerd.Client, error) { return s.client(c) },
	}
	if s.Work, err = os.MkdirTemp(c.String("work-dir"), "faasnet-"); err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	return s, nil
}

// newRegistry makes the client for all registries.
func newRegistry(c *cli.Context, names ...endpoint.Name) (*registry.Client, error) {
	o := registry.Options{HostsDirs: c.StringSlice("hosts-dir"), DockerConfig: c.String("docker-config"), Proxy: http.ProxyFromEnvironment}
	for _, n := range names {
		if n.Kind != endpoint.Registry {
			continue
		}
		named, err := reference.ParseNormalizedNamed(n.Ref)
		if err != nil {
			return nil, usageError{err}
		}
		if c.Bool("plain-http") {
			o.PlainHTTP = append(o.PlainHTTP, reference.Domain(named))
		}
		if c.Bool("insecure") {
			o.SkipVerify = append(o.SkipVerify, reference.Domain(named))
		}
	}
	return registry.New(o)
}

// client connects to containerd once.
func (s *session) client(c *cli.Context) (*containerd.Client, error) {
	if s.containerd != nil {
		return s.containerd, nil
	}
	client, err := containerd.New(c.String("address"), containerd.WithDefaultNamespace(c.String("namespace")))
	if err != nil {
		return nil, fmt.Errorf("containerd at %s: %w", c.String("address"), err)
	}
	s.containerd = client
	return client, nil
}

// Close removes all temporary files and closes all connections.
func (s *session) Close() {
	if s.containerd != nil {
		s.containerd.Close()
	}
	if s.registry != nil {
		s.registry.Close()
	}
	if s.Places != nil && s.Work != "" {
		os.RemoveAll(s.Work)
	}
}

// names parses image names.
func names(args ...string) ([]endpoint.Name, error) {
	var out []endpoint.Name
	for _, a := range args {
		n, err := endpoint.Parse(a)
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, n)
	}
	return out, nil
}

// platform reads --platform and --all-platforms.
func platform(c *cli.Context) (platforms.MatchComparer, error) {
	if c.Bool("all-platforms") {
		if c.IsSet("platform") {
			return nil, usagef("--platform and --all-platforms exclude each other")
		}
		return platforms.All, nil
	}
	if !c.IsSet("platform") {
		return platforms.DefaultStrict(), nil
	}
	var ps []ocispec.Platform
	for _, v := range c.StringSlice("platform") {
		p, err := platforms.Parse(v)
		if err != nil {
			return nil, usageError{err}
		}
		ps = append(ps, p)
	}
	return platforms.Any(ps...), nil
}
