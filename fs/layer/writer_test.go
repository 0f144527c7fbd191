package layer

import (
	"bytes"
	"testing"

	"github.com/faasnet/faasnet/fs/block"
)

func TestWriterEmptyLayer(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, block.DefaultSize)
	info, err := w.Close(Sections{Index: []byte("index")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromLabels(info.Annotations())
	if err != nil {
		t.Fatal(err)
	}
	if got != info {
		t.Errorf("got %+v, want %+v", got, info)
	}
	m, err := ParseMeta(b.Bytes()[info.Meta.Offset:][:info.Meta.Size])
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Index) != "index" || m.Table.Len() != 0 {
		t.Errorf("got %+v", m)
	}
}
