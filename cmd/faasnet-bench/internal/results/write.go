package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the document into the file out, and the plots that it links into
// the directory of the same name beside it. Plots that it no longer links go.
func Write(in Input, out string) (unexplained []string, err error) {
	dir := strings.TrimSuffix(out, filepath.Ext(out))
	text, unexplained := Document(in, filepath.Base(dir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return nil, err
	}
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	plots := in.Plots
	for _, b := range in.Bursts {
		plots = append(plots, b.plots()...)
	}
	for _, p := range plots {
		svg := p.SVG
		if svg == nil {
			var drawErr error
			svg, drawErr = p.Figure.SVG()
			err = errors.Join(err, drawErr)
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, p.Name+".svg"), svg, 0o644))
	}
	return unexplained, errors.Join(err, os.WriteFile(out, []byte(text), 0o644))
}
