package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"github.com/faasnet/faasnet/convert/inspect"
	"github.com/faasnet/faasnet/fs/block"
)

// layerView is what inspect shows of a layer. Sizes are bytes.
type layerView struct {
	Digest      digest.Digest     `json:"digest"`
	MediaType   string            `json:"media_type"`
	Kind        string            `json:"kind"` // "converted", "start", "index" or "plain"
	Size        int64             `json:"size"`
	DiffID      digest.Digest     `json:"diff_id,omitempty"`
	TarSize     int64             `json:"tar_size,omitempty"`
	BlockSize   int               `json:"block_size,omitempty"`
	Blocks      int               `json:"blocks,omitempty"`
	BlockBytes  int64             `json:"block_bytes,omitempty"`
	Ratio       float64           `json:"ratio,omitempty"` // tar stream to blocks
	Meta        *sectionView      `json:"meta,omitempty"`
	Image       *sectionView      `json:"image,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type sectionView struct {
	Offset int64  `json:"offset"`
	Size   int    `json:"size"`
	Digest string `json:"digest"`
	Index  int    `json:"index_size"` // the EROFS image in it, not compressed
}

type imageView struct {
	Name     string        `json:"name"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Platform string        `json:"platform,omitempty"`
	Lazy     bool          `json:"lazy"` // all layers are converted
	Layers   []layerView   `json:"layers"`
}

func (v *view) show(c *cli.Context) error {
	out := imageView{Name: v.name, Manifest: v.image.Manifest.Digest, Lazy: true}
	if v.image.Manifest.Digest != "" {
		out.Platform = platforms.FormatAll(v.image.Platform)
	}
	for i, l := range v.image.Layers {
		out.Layers = append(out.Layers, viewLayer(l, v.image, i == len(v.image.Layers)-1))
		out.Lazy = out.Lazy && l.Info != nil
	}
	if c.Bool("json") {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	return out.print(c.App.Writer, c.Bool("annotations"))
}

func viewLayer(l inspect.Layer, img *inspect.Image, top bool) layerView {
	out := layerView{
		Digest: l.Descriptor.Digest, MediaType: l.Descriptor.MediaType, Kind: "plain", Size: l.Descriptor.Size,
		DiffID: l.DiffID, Annotations: l.Descriptor.Annotations,
	}
	if l.Info == nil {
		return out
	}
	t := l.Meta.Table
	out.Kind, out.TarSize, out.BlockSize, out.Blocks, out.BlockBytes = "converted", t.Length(), t.BlockSize(), t.Len(), t.Bytes()
	if t.Bytes() > 0 {
		out.Ratio = float64(t.Length()) / float64(t.Bytes())
	}
	out.Meta = viewSection(l.Info.Meta, len(l.Meta.Index))
	if l.Info.Start {
		out.Kind = "start"
	}
	if l.Info.Image != nil {
		out.Kind = "index"
		out.Image = viewSection(*l.Info.Image, 0)
		if top && img.Section != nil {
			out.Image.Index = len(img.Section.Index)
		}
	}
	return out
}

func viewSection(ref block.Ref, index int) *sectionView {
	return &sectionView{Offset: ref.Offset, Size: ref.Size, Digest: "sha256:" + ref.Sum.String(), Index: index}
}

func (v imageView) print(w io.Writer, annotations bool) error {
	fmt.Fprintf(w, "Name:      %s\n", v.Name)
	if v.Manifest != "" {
		fmt.Fprintf(w, "Manifest:  %s\nPlatform:  %s\nLazy:      %v\n", v.Manifest, printable(v.Platform), v.Lazy)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nLAYER\tKIND\tDIGEST\tSIZE\tTAR\tBLOCKS\tOF\tRATIO\tMETA\tINDEX\tIMAGE")
	for i, l := range v.Layers {
		if l.Meta == nil {
			fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t\t\t\t\t\t\t\n", i, l.Kind, short(l.Digest), size(l.Size))
			continue
		}
		image := ""
		if l.Image != nil {
			image = fmt.Sprintf("%s (%s)", size(int64(l.Image.Size)), size(int64(l.Image.Index)))
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%.2f\t%s\t%s\t%s\n", i, l.Kind, short(l.Digest), size(l.Size), size(l.TarSize),
			l.Blocks, size(int64(l.BlockSize)), l.Ratio, size(int64(l.Meta.Size)), size(int64(l.Meta.Index)), image)
	}
	if err := tw.Flush(); err != nil || !annotations {
		return err
	}
	for i, l := range v.Layers {
		fmt.Fprintf(w, "\nLayer %d: %s %s\n", i, l.Digest, printable(l.MediaType))
		var keys []string
		for k := range l.Annotations {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			fmt.Fprintf(w, "  %s = %s\n", printable(k), printable(l.Annotations[k]))
		}
	}
	return nil
}
