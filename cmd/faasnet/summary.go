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

// summary is what convert --json prints. Bytes are those of layer blobs; a
// layer that several platforms share counts once.
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
	Seconds   float64               `json:"seconds"`
}

func (p *progress) summary(c *cli.Context, src, dst endpoint.Name, target ocispec.Descriptor, took time.Duration) error {
	s := summary{
		Source: src.String(), Target: dst.String(), Digest: target.Digest, MediaType: target.MediaType,
		Layers: []convert.LayerReport{}, Start: p.start, Seconds: took.Seconds(),
	}
	for _, d := range p.order {
		r, ok := p.done[d]
		if !ok {
			continue
		}
		s.Layers = append(s.Layers, r)
		s.BytesIn += r.BytesIn
		s.BytesOut += r.BytesOut
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
	fmt.Fprintf(&text, "%s@%s\n%d layers (%d reused), %s -> %s (%+.1f %%), %.1f s\n",
		s.Target, s.Digest, len(s.Layers), s.Reused, size(s.BytesIn), size(s.BytesOut), change(s.BytesIn, s.BytesOut), s.Seconds)
	for _, r := range s.Start {
		fmt.Fprintf(&text, "start layer: %d files, %s; left out: %d not in the image, %d little used, %d other\n",
			r.Files, size(r.BytesOut), r.Unknown, r.Little, r.Other)
	}
	_, err := io.WriteString(c.App.Writer, text.String())
	return err
}

// change is by how many per cent b is more than a.
func change(a, b int64) float64 {
	if a == 0 {
		return 0
	}
	return (float64(b)/float64(a) - 1) * 100
}
