package images

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
)

// Of each small image, which has 75 MB with busybox.
const (
	smallLayers   = 5
	smallBytes    = 14_700_000 // of one layer
	smallHotFiles = 250        // in the layer in the middle
	smallHotBytes = 8_000_000
)

// smallImage is the recipe of one of the images of Small.
func smallImage(index int) recipe {
	return func(ctx context.Context, w *Writer, work string, _ io.Writer) ([]string, error) {
		root, err := busybox(ctx, work)
		if err != nil {
			return nil, err
		}
		w.Add("busybox", Dir(root))
		for i := range smallLayers {
			var hot []int
			if i == smallLayers/2 {
				for range smallHotFiles {
					hot = append(hot, smallHotBytes/smallHotFiles)
				}
			}
			w.Add(fmt.Sprintf("data %d", i), func(tw *tar.Writer) error {
				return mixedLayer(tw, newGenerator('1'+byte(index), i), i, smallBytes, hot)
			})
		}
		return append(shell, "cat /data/*/m-hot/* >/dev/null && echo READY"), nil
	}
}
