package index_test

import (
	"archive/tar"
	"testing"

	"github.com/faasnet/faasnet/fs/index/indextest"
)

func TestFirst(t *testing.T) {
	var l indextest.Tar
	l.Add(indextest.Header{Name: "a", Body: "hello"}, indextest.Header{Name: "d/", Type: tar.TypeDir}, indextest.Header{Name: "d/b", Body: "x"},
		indextest.Header{Name: "h", Type: tar.TypeLink, Link: "a"})
	same(t, l.Bytes())
}
