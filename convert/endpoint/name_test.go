package endpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/faasnet/faasnet/convert/endpoint"
)

func TestParse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"layout", "with:colon", "plain"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"layout/oci-layout", "with:colon/oci-layout", "image.tgz"} {
		if err := os.WriteFile(filepath.FromSlash(file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for s, want := range map[string]endpoint.Name{
		"busybox":                        {Ref: "docker.io/library/busybox:latest"},
		"docker://busybox:1":             {Ref: "docker.io/library/busybox:1"},
		"localhost:5000/a/b":             {Ref: "localhost:5000/a/b:latest"},
		"plain":                          {Ref: "docker.io/library/plain:latest"},
		"containerd://docker.io/x/y:1":   {Kind: endpoint.Containerd, Ref: "docker.io/x/y:1"},
		"oci:new":                        {Kind: endpoint.Layout, Path: "new"},
		"oci:new:tag":                    {Kind: endpoint.Layout, Path: "new", Ref: "tag"},
		"oci:a/new:host:5000/x:1":        {Kind: endpoint.Layout, Path: "a/new", Ref: "host:5000/x:1"},
		"oci:with:colon":                 {Kind: endpoint.Layout, Path: "with:colon"},
		"oci:with:colon:tag":             {Kind: endpoint.Layout, Path: "with:colon", Ref: "tag"},
		"layout":                         {Kind: endpoint.Layout, Path: "layout"},
		"layout:tag":                     {Kind: endpoint.Layout, Path: "layout", Ref: "tag"},
		"layout@sha256:00":               {Kind: endpoint.Layout, Path: "layout", Ref: "sha256:00"},
		"./new":                          {Kind: endpoint.Layout, Path: "./new"},
		"/new/dir:tag":                   {Kind: endpoint.Layout, Path: "/new/dir", Ref: "tag"},
		"new.tar":                        {Kind: endpoint.Archive, Path: "new.tar"},
		"dir/new.tar:app:1":              {Kind: endpoint.Archive, Path: "dir/new.tar", Ref: "app:1"},
		"image.tgz":                      {Kind: endpoint.Archive, Path: "image.tgz"},
		"oci-archive:x":                  {Kind: endpoint.Archive, Path: "x"},
		"docker-archive:image.tgz:app:1": {Kind: endpoint.Archive, Path: "image.tgz", Ref: "app:1"},
	} {
		got, err := endpoint.Parse(s)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", s, got, err, want)
		}
		if again, err := endpoint.Parse(got.String()); err != nil || again != got {
			t.Errorf("%q: its full name %q is %+v, %v", s, got, again, err)
		}
	}
	for _, s := range []string{"", "UPPER", "containerd://", "oci:", "oci::tag", "a b"} {
		if got, err := endpoint.Parse(s); err == nil {
			t.Errorf("%q is %+v, want an error", s, got)
		}
	}
}
