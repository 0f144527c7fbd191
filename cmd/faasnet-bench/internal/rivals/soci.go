package rivals

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"

	"github.com/faasnet/faasnet/script/lab"
)

//go:embed programs/soci.go.txt
var sociMain string

const sociVersion = "v0.16.1"

// soci is the soci-snapshotter: layers stay as they are, and an index beside
// them (of version 2, part of the image) says where files lie. Layers below
// 10 MiB have none, as by default, and are unpacked. Two of its settings are not
// the defaults, since it is faster without: its database, which it makes anew
// with each start, is not synced to the disk, and nothing is fetched in the
// background. That begins after 30 s, while functions still wait for what they
// read, and takes the link from them: four VMs at 25 Mbit/s were READY with
// image b after 167 s without it and after 315 s with it, when each had been
// sent the whole image.
func soci() System {
	program := goModule{path: "github.com/awslabs/soci-snapshotter", version: sociVersion, program: "soci", main: sociMain}
	return System{
		Name: "soci", Snapshotter: "soci", Tag: "soci-" + sociVersion, Lazy: true, Install: program.install,
		Convert: func(ctx context.Context, c Conversion) error {
			fmt.Fprintln(c.Log, "making the soci index")
			_, err := c.Host.Run(ctx, filepath.Join(c.Programs, program.file()), "-address", c.Containerd.Address(), "-namespace", c.Namespace, "-root", c.Host.Dir(), "-convert", c.Source, c.Target)
			if err != nil {
				return err
			}
			return c.Push(ctx)
		},
		Start: func(ctx context.Context, vm *lab.Host, programs, registry string) (*lab.Plugin, error) {
			config := fmt.Sprintf("# soci-snapshotter %s\nmetadata_db_no_sync = true\n[background_fetch]\ndisable = true\n[content_store]\ncontainerd_address = %q\n[[resolver.host.%q.mirrors]]\nhost = %q\ninsecure = true\n",
				sociVersion, vm.ContainerdAddress(), registry, "http://"+registry)
			return daemon(ctx, vm, "soci", filepath.Join(programs, program.file()), config)
		},
	}
}
