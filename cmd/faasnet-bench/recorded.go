package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// variants are the conversions that systems of ours are measured with: those
// that know nothing of the function, and recorded ones, which carry a start
// layer, as the images of stargz are optimized by a run.
type variants struct{ plain, recorded bool }

func variantFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "recorded", Usage: "measure ours with the recorded conversion too: an image with a start layer, made from one run of the function"},
		&cli.BoolFlag{Name: "recorded-only", Usage: "measure ours with the recorded conversion and not with the plain one"},
	}
}

// variantsOf reads the flags; commands without them measure the plain conversion.
func variantsOf(c *cli.Context) variants {
	only := c.Bool("recorded-only")
	return variants{plain: !only, recorded: only || c.Bool("recorded")}
}

// of says for each row of a system, which is ours or not, whether its image is
// recorded.
func (v variants) of(ours bool) (recorded []bool) {
	if v.plain || !ours {
		recorded = append(recorded, false)
	}
	if v.recorded && ours {
		recorded = append(recorded, true)
	}
	return recorded
}

// called is how tables name a system.
func called(system string, recorded bool) string {
	if recorded {
		return system + ", recorded"
	}
	return system
}

// anyRecorded tells whether one of the plans needs a recorded conversion.
func anyRecorded(plan []burstPlan) bool {
	return slices.ContainsFunc(plan, func(p burstPlan) bool { return p.Recorded })
}

// record returns the record of an image that the registry has as src. That of
// a test image is made once and kept beside what was converted of it.
func (s *site) record(ctx context.Context, h *lab.Host, r *lab.Registry, image, src string) (file string, err error) {
	dir := h.Dir()
	if images.IsName(image) {
		if dir, err = kept(ctx, image); err != nil {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	file = filepath.Join(dir, "record.jsonl")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	fmt.Fprintf(s.progress, "recording a run of %s\n", image)
	w, err := s.workshop(ctx, h, r, src)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	argv := []string{"record", "--address", w.Address(), "--namespace", w.namespace, "--quiet", "--out", file}
	if images.IsName(image) {
		argv = append(argv, "--until", lab.Ready, "--timeout", "10m")
	}
	_, err = h.Run(ctx, filepath.Join(s.Tools().Product, "faasnet"), append(argv, src)...)
	return file, err
}

// workshop is a containerd on the machine's own network, where nothing is
// shaped, that has pulled the image which is to be made fit for a system.
type workshop struct {
	*lab.Containerd
	namespace string
}

func (s *site) workshop(ctx context.Context, h *lab.Host, r *lab.Registry, src string) (*workshop, error) {
	hosts, err := r.HostsDir()
	if err != nil {
		return nil, err
	}
	c, err := h.Containerd(ctx, lab.Current, hosts, nil)
	if err != nil {
		return nil, err
	}
	// Containers that run there are in the cgroup of the namespace's name: the
	// lab's, with which they end.
	w := &workshop{namespace: filepath.Base(s.Dir())}
	w.Containerd = c.Namespace(w.namespace)
	if err := w.Pull(ctx, "overlayfs", src); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// close ends the containerd, and what the runtime notes of its containers.
func (w *workshop) close() error {
	const patience = 10 * time.Second
	return errors.Join(w.Stop(patience), os.RemoveAll(filepath.Join("/run/containerd/runc", w.namespace)))
}
