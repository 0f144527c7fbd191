package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/fs/layer"
)

// maxJSON bounds a manifest, index or config, in bytes: registries allow 4 MiB.
const maxJSON = 8 << 20

// blob makes a layer blob in cs: fill writes it and says what it wrote and the
// diff ID. After an error nothing is left of it.
func (c *Converter) blob(ctx context.Context, cs content.Store, ref string, fill func(io.Writer) (layer.Info, digest.Digest, error)) (_ layer.Info, err error) {
	w, err := content.OpenWriter(ctx, cs, content.WithRef(ref))
	if err != nil {
		return layer.Info{}, fmt.Errorf("new blob: %w", err)
	}
	defer func() {
		w.Close()
		if err != nil {
			_ = cs.Abort(context.WithoutCancel(ctx), ref) // what an interrupted conversion leaves goes too
		}
	}()
	if err := w.Truncate(0); err != nil { // a conversion that died may have used ref
		return layer.Info{}, fmt.Errorf("new blob: %w", err)
	}
	i, diffID, err := fill(w)
	if err != nil {
		return layer.Info{}, err
	}
	if err := c.commit(ctx, cs, w, i, diffID); err != nil {
		return layer.Info{}, fmt.Errorf("new blob %s: %w", i.Digest, err)
	}
	return i, nil
}

// commit makes a written blob part of cs. One that was there before gets our
// labels too.
func (c *Converter) commit(ctx context.Context, cs content.Store, w content.Writer, i layer.Info, diffID digest.Digest) error {
	l := c.annotate(nil, i)
	l[labels.LabelUncompressed] = diffID.String()
	err := w.Commit(ctx, i.Size, i.Digest, content.WithLabels(l))
	if !errdefs.IsAlreadyExists(err) {
		return err
	}
	return relabel(ctx, cs, i.Digest, l)
}

// relabel adds labels to a blob of cs, if cs has labels.
func relabel(ctx context.Context, cs content.Store, d digest.Digest, l map[string]string) error {
	var paths []string
	for k := range l {
		paths = append(paths, "labels."+k)
	}
	if len(paths) == 0 {
		return nil
	}
	_, err := cs.Update(ctx, content.Info{Digest: d, Labels: l}, paths...)
	if errdefs.IsFailedPrecondition(err) {
		return nil // local stores without a label store say so
	}
	return err
}

// readJSON reads a manifest, index or config into v and verifies it.
func readJSON(ctx context.Context, p content.Provider, desc ocispec.Descriptor, v any) error {
	if desc.Size < 0 || desc.Size > maxJSON {
		return fmt.Errorf("%d bytes of JSON, at most %d: %w", desc.Size, maxJSON, errdefs.ErrInvalidArgument)
	}
	if err := desc.Digest.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w: %w", desc.Digest, err, errdefs.ErrInvalidArgument)
	}
	b, err := content.ReadBlob(ctx, p, desc)
	if err != nil {
		return err
	}
	if got := desc.Digest.Algorithm().FromBytes(b); got != desc.Digest {
		return fmt.Errorf("its bytes have digest %s: %w", got, errdefs.ErrDataLoss)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	return nil
}

// writeJSON writes v into cs and returns old with the new digest and size.
func writeJSON(ctx context.Context, cs content.Store, v any, old ocispec.Descriptor, l map[string]string) (*ocispec.Descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	desc := old
	desc.Digest, desc.Size, desc.Data = digest.FromBytes(b), int64(len(b)), nil
	err = content.WriteBlob(ctx, cs, "faasnet-json-"+desc.Digest.String(), bytes.NewReader(b),
		ocispec.Descriptor{Digest: desc.Digest, Size: desc.Size}, content.WithLabels(l))
	if err != nil {
		return nil, err
	}
	return &desc, relabel(ctx, cs, desc.Digest, l)
}
