package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/faasnet/faasnet/convert"
	"github.com/faasnet/faasnet/fs/layer"
)

// progress shows how a conversion goes and remembers what became of each
// layer. It is a convert.Progress.
type progress struct {
	mu    sync.Mutex // guards all below, and the terminal
	out   io.Writer  // nil: shows nothing but warnings
	warn  io.Writer
	bar   *progressbar.ProgressBar // nil: plain lines
	order []digest.Digest          // of the layers, as planned
	bytes int64                    // of the layers planned
	done  map[digest.Digest]convert.LayerReport
	start []convert.StartReport
	in    map[digest.Digest]int64 // layer blobs of the source and their sizes
	made  map[digest.Digest]int64 // of the result
	old   map[digest.Digest]int64 // start layers of the source
	hot   map[digest.Digest]int64 // of the result
}

func newProgress(c *cli.Context) *progress {
	p := &progress{
		out: c.App.ErrWriter, warn: c.App.ErrWriter, done: make(map[digest.Digest]convert.LayerReport),
		in: make(map[digest.Digest]int64), made: make(map[digest.Digest]int64),
		old: make(map[digest.Digest]int64), hot: make(map[digest.Digest]int64),
	}
	if c.Bool("quiet") {
		p.out = nil
		return p
	}
	if f, ok := p.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(f),
			progressbar.OptionSetDescription("reading layers"),
			progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// Plan makes the bar longer.
func (p *progress) Plan(l ocispec.Descriptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = append(p.order, l.Digest)
	p.bytes += l.Size
	if p.bar != nil {
		p.bar.ChangeMax64(p.bytes)
	}
}

// Begin says that a layer is being converted.
func (p *progress) Begin(l ocispec.Descriptor) {
	p.line("%s: converting %s", short(l.Digest), size(l.Size))
}

// Read moves the bar.
func (p *progress) Read(n int) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.Add(n)
}

// End says what became of a layer.
func (p *progress) End(r convert.LayerReport) {
	p.mu.Lock()
	_, again := p.done[r.Source]
	p.done[r.Source] = r
	if p.bar != nil && r.Reused && !again {
		p.bar.Add64(r.BytesIn)
	}
	p.mu.Unlock()
	switch {
	case again:
	case r.Reused:
		p.line("%s: converted before", short(r.Source))
	default:
		p.line("%s: %s -> %s %s in %s, %.1fs", short(r.Source), size(r.BytesIn), short(r.Target), size(r.BytesOut), count(r.Blocks, "block"), r.Seconds)
	}
}

// Start says what a start layer has.
func (p *progress) Start(r convert.StartReport) {
	p.mu.Lock()
	p.start = append(p.start, r)
	p.mu.Unlock()
	p.line("start layer %s: %s, %s in %s, %.1fs", short(r.Target), count(r.Files, "file"), size(r.BytesOut), count(r.Blocks, "block"), r.Seconds)
}

// Image notes the layers of an image. A layer that several have counts once.
func (p *progress) Image(r convert.ImageReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note(r.In, p.in, p.old)
	note(r.Out, p.made, p.hot)
}

// note notes the sizes of layers, and apart those of start layers.
func note(layers []ocispec.Descriptor, all, start map[digest.Digest]int64) {
	for _, l := range layers {
		all[l.Digest] = l.Size
		if i, err := layer.FromLabels(l.Annotations); err == nil && i.Start {
			start[l.Digest] = l.Size
		}
	}
}

// Warn writes a warning, even above a bar.
func (p *progress) Warn(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
	}
	fmt.Fprintf(p.warn, "faasnet: warning: %s\n", text)
}

// phase says what happens next.
func (p *progress) phase(text string) {
	p.mu.Lock()
	if p.bar != nil {
		p.bar.Describe(text)
	}
	p.mu.Unlock()
	p.line("%s", text)
}

// line writes a plain line where there is no bar.
func (p *progress) line(format string, args ...any) {
	if p.out == nil || p.bar != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Close takes the bar away.
func (p *progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
		p.bar.Close()
		p.bar = nil
	}
}

// short is enough of a digest to tell layers apart.
func short(d digest.Digest) string {
	if d.Validate() != nil {
		return d.String()
	}
	return d.Encoded()[:12]
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, prefix := float64(n)/unit, "KMGT"
	for v >= unit && len(prefix) > 1 {
		v, prefix = v/unit, prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", v, prefix[0])
}
