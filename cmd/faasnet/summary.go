package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/convert/endpoint"
)

// summary is what convert --json prints. Bytes are those of all layer blobs,
// index and start layers included; a layer that several platforms share counts
// once. Layers are those that the result has from the source, without a start layer.
type summary struct {
	Source    string                `json:"source"`
	Target    string                `json:"target"`
	Digest    digest.Digest         `json:"digest"`
	MediaType string                `json:"media_type"`
	Layers    []convert.LayerReport `json:"layers"`
	Start     []convert.StartReport `json:"start,omitempty"` // one for each manifest that got a start layer
	Reused    int                   `json:"reused"`
	BytesIn   int64                 `json:"bytes_in"`
	BytesOut  int64                 `json:"bytes_out"`
	StartIn   int64                 `json:"start_bytes_in"`  // of bytes_in: start layers that the source had
	StartOut  int64                 `json:"start_bytes_out"` // of bytes_out: start layers that the result has
	Seconds   float64               `json:"seconds"`
}

func (p *progress) summary(c *cli.Context, src, dst endpoint.Name, target ocispec.Descriptor, took time.Duration) error {
	s := summary{
		Source: src.String(), Target: dst.String(), Digest: target.Digest, MediaType: target.MediaType,
		Layers: []convert.LayerReport{}, Start: p.start, Seconds: took.Seconds(),
		BytesIn: sum(p.in), BytesOut: sum(p.made), StartIn: sum(p.old), StartOut: sum(p.hot),
	}
	for _, d := range p.order {
		r, ok := p.done[d]
		_, kept := p.made[r.Target]
		if _, start := p.hot[r.Target]; !ok || !kept || start {
			continue
		}
		s.Layers = append(s.Layers, r)
		if r.Reused {
			s.Reused++
		}
	}
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s@%s\n%s (%d reused)%s, %s -> %s (%+.1f %%), %.1f s\n",
		s.Target, s.Digest, count(len(s.Layers), "layer"), s.Reused, startText(len(p.old), s.StartIn, len(p.hot), s.StartOut),
		size(s.BytesIn), size(s.BytesOut), change(s.BytesIn, s.BytesOut), s.Seconds)
	for _, r := range s.Start {
		fmt.Fprintf(&text, "start layer: %s, %s; left out: %d not in the image, %d little used, %d empty, %d other names, %d other\n",
			count(r.Files, "file"), size(r.BytesOut), r.Unknown, r.Little, r.Empty, r.Again, r.Other)
	}
	_, err := io.WriteString(c.App.Writer, text.String())
	return err
}

// startText says which of the bytes of a conversion are those of start layers.
func startText(had int, in int64, has int, out int64) string {
	switch {
	case had == 0 && has == 0:
		return ""
	case has == 0:
		return " without the start layer of " + size(in)
	case had == 0:
		return " and a start layer of " + size(out)
	}
	return fmt.Sprintf(" and a start layer of %s, which was %s", size(out), size(in))
}

func sum(sizes map[digest.Digest]int64) (n int64) {
	for _, s := range sizes {
		n += s
	}
	return n
}

// change is by how many per cent b is more than a.
func change(a, b int64) float64 {
	if a == 0 {
		return 0
	}
	return (float64(b)/float64(a) - 1) * 100
}
