package main

import (
	"context"
	"fmt"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/convert/start"
)

const procfs = "/proc"

// How long the leases live if nobody ends them.
const (
	unpackTime = time.Hour
	margin     = 10 * time.Minute // on top of the run: what is before and after
)

// record runs an image once.
func (r *recording) record(ctx context.Context, ref string) (_ start.Record, err error) {
	// Before anything is written: that would make a namespace that is not there.
	if r.image, err = r.client.GetImage(ctx, ref); err != nil {
		return nil, err
	}
	next, err := r.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer next()
	r.sweep(ctx)
	if err := r.unpack(ctx); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	manifest, err := manifestDigest(ctx, r.image)
	if err != nil {
		return nil, err
	}
	ctx, done, err := r.lease(ctx, "lease", r.timeout+margin)
	if err != nil {
		return nil, err
	}
	defer done()
	var out start.Record
	err = r.lower(ctx, func(root string) error {
		before := dropped(procfs)
		if err := forget(ctx, root); err != nil {
			return err
		}
		opened, err := r.run(ctx)
		if err != nil {
			return err
		}
		if out, err = entries(root, opened); dropped(procfs) != before {
			fmt.Fprintln(r.stderr, "faasnet: warning: page caches were dropped meanwhile: how much of large files is used is not known")
			forgetUsed(out)
		}
		return err
	})
	for i := range out {
		out[i].Manifest = manifest
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("no file of the image was opened: %w", errdefs.ErrNotFound)
	}
	return out, err
}

// unpack unpacks the image if it is not.
func (r *recording) unpack(ctx context.Context) error {
	done, err := r.image.IsUnpacked(ctx, r.snapshotter)
	if err != nil || done {
		return err
	}
	ctx, end, err := r.lease(ctx, "unpack", unpackTime)
	if err != nil {
		return err
	}
	defer end()
	return r.image.Unpack(ctx, r.snapshotter)
}

// lease keeps containerd from deleting what is made under the context until done,
// or for the time given if the process is killed.
func (r *recording) lease(ctx context.Context, what string, life time.Duration) (_ context.Context, done func(), err error) {
	id := r.me.name(what)
	leased, end, err := r.client.WithLease(ctx, leases.WithID(id), leases.WithExpiration(life))
	if err != nil {
		return nil, nil, fmt.Errorf("lease: %w", err)
	}
	return leased, func() { r.tidy(ctx, "lease "+id, end) }, nil
}

// manifestDigest is the digest of the manifest that runs on this machine.
func manifestDigest(ctx context.Context, img containerd.Image) (string, error) {
	var found string
	h := images.FilterPlatforms(images.ChildrenHandler(img.ContentStore()), platforms.Default())
	h = images.LimitManifests(h, platforms.Default(), 1)
	err := images.Walk(ctx, images.Handlers(images.HandlerFunc(func(_ context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if found == "" && images.IsManifestType(d.MediaType) {
			found = d.Digest.String()
		}
		return nil, nil
	}), h), img.Target())
	return found, err
}
