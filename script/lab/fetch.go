package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Fetch copies the image ref, for this machine's platform, from its registry
// into the new OCI layout directory layout. Registries on the loopback are
// plain HTTP, all others are not, and give it to anyone.
func Fetch(ctx context.Context, ref, layout string) error {
	cs, err := local.NewStore(layout)
	if err != nil {
		return err
	}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
		docker.WithPlainHTTP(docker.MatchLocalhost), docker.WithAuthorizer(docker.NewDockerAuthorizer()))})
	name, target, err := resolver.Resolve(ctx, ref)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return err
	}
	platform := platforms.Default()
	children := images.LimitManifests(images.FilterPlatforms(images.ChildrenHandler(cs), platform), platform, 1)
	if err := images.Dispatch(ctx, images.Handlers(remotes.FetchHandler(cs, fetcher), children), nil, target); err != nil {
		return fmt.Errorf("fetch %s: %w", ref, err)
	}
	if images.IsIndexType(target.MediaType) {
		manifests, err := children(ctx, target)
		if err != nil || len(manifests) != 1 {
			return fmt.Errorf("%s: %d manifests for this platform: %w", ref, len(manifests), err)
		}
		target = manifests[0]
	}
	index, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{target}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(layout, ocispec.ImageIndexFile), index, 0o644)
}
