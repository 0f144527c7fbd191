package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
)

// The hot files of image c, in bytes: 2,000 files of hotMean on average, in
// hotLayers layers, in the middle of each in the order of the tar.
const (
	hotLayers = 3
	hotFiles  = 2000
	hotBytes  = 64 << 20
	dataBytes = 44 << 20 // of one data layer
	dataCount = 15
)

func imageC(ctx context.Context, w *Writer, work string, _ io.Writer) ([]string, error) {
	root, err := busybox(ctx, work)
	if err != nil {
		return nil, err
	}
	w.Add("busybox", Dir(root))
	for i := range dataCount {
		w.Add(fmt.Sprintf("data %d", i), func(tw *tar.Writer) error { return dataLayer(tw, i) })
	}
	return append(shell, "cat /data/*/m-hot/* >/dev/null && echo READY"), nil
}

// dataLayer writes layer i of image c: cold files, hot ones in the first
// hotLayers layers, more cold files. Every second file is text, which
// shrinks; the others are random bytes, which do not.
func dataLayer(tw *tar.Writer, i int) error {
	return mixedLayer(tw, newGenerator('c', i), i, dataBytes, sizes(i))
}

// mixedLayer writes total bytes, of them hot files of the sizes, into data/i.
func mixedLayer(tw *tar.Writer, g *generator, i, total int, hot []int) error {
	top := fmt.Sprintf("data/%02d", i)
	if err := dirs(tw, "data", top, top+"/a-cold"); err != nil {
		return err
	}
	var hotSum int
	for _, n := range hot {
		hotSum += n
	}
	cold := (total - hotSum) / 2
	if err := g.coldFiles(tw, top+"/a-cold", cold); err != nil {
		return err
	}
	if len(hot) > 0 {
		if err := dirs(tw, top+"/m-hot"); err != nil {
			return err
		}
	}
	for k, n := range hot {
		if err := file(tw, fmt.Sprintf("%s/m-hot/%04d", top, k), g.content(k, n)); err != nil {
			return err
		}
	}
	if err := dirs(tw, top+"/z-cold"); err != nil {
		return err
	}
	return g.coldFiles(tw, top+"/z-cold", cold)
}

// sizes gives the sizes of the hot files of layer i; over all layers they are
// hotFiles files and exactly hotBytes bytes.
func sizes(i int) []int {
	const mean = hotBytes / hotFiles
	var mine []int
	left := hotBytes
	for k := range hotFiles {
		n := mean/4 + (k*7919)%(mean*3/2) // mean/4 .. 7/4 of mean, well mixed
		if k == hotFiles-1 {
			n = left
		}
		left -= n
		if k%hotLayers == i {
			mine = append(mine, n)
		}
	}
	return mine
}

func (g *generator) coldFiles(tw *tar.Writer, dir string, total int) error {
	for k := 0; total > 0; k++ {
		n := min(total, 1<<10<<(g.Uint64()%12)) // 1 KiB .. 2 MiB
		if err := file(tw, fmt.Sprintf("%s/%05d", dir, k), g.content(k, n)); err != nil {
			return err
		}
		total -= n
	}
	return nil
}

// generator makes the content of one layer.
type generator struct {
	*rand.ChaCha8
	text []byte
}

func newGenerator(image byte, layer int) *generator {
	g := &generator{ChaCha8: rand.NewChaCha8([32]byte{image, byte(layer)})}
	var b bytes.Buffer
	for b.Len() < 8<<20 {
		fmt.Fprintf(&b, "%04x record of sensor %d, value %d\n", g.Uint64()&0xffff, layer, g.Uint64()%1000)
	}
	g.text = b.Bytes()
	return g
}

func (g *generator) content(k, n int) []byte {
	if k%2 == 0 {
		p := make([]byte, n)
		g.Read(p)
		return p
	}
	at := int(g.Uint64() % uint64(len(g.text)-n))
	return g.text[at : at+n]
}
