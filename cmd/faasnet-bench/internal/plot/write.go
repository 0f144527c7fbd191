package plot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const dotsPerInch = 160 // of the PNG

// Write draws the figure into dir/name.svg and dir/name.png; dir is made where
// it is missing. The same figure gives the same bytes.
func (f Figure) Write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	png, err := f.PNG()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name)
	return errors.Join(os.WriteFile(file+".svg", svg, 0o644), os.WriteFile(file+".png", png, 0o644))
}

// SVG draws the figure. Its letters are the viewer's: Liberation Sans, or what
// has the same widths.
func (f Figure) SVG() ([]byte, error) {
	c := vgsvg.New(width, height)
	f.drawOn(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(b.String(), "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

// PNG draws the figure.
func (f Figure) PNG() ([]byte, error) {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	f.drawOn(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}
