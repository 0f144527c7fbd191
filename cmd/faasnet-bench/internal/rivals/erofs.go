package rivals

import (
	"context"
	"os/exec"
	"strings"

	"github.com/faasnet/faasnet/script/lab"
)

// erofs is a full pull into containerd's own EROFS snapshotter, which makes one
// file system of each layer. Its differ converts while it unpacks, if mkfs.erofs
// reads tar streams, which it does from 1.7 on; the walking differ unpacks
// files first.
func erofs() System {
	return System{
		Name: "erofs", Snapshotter: "erofs", Tag: Original,
		Start: func(ctx context.Context, _ *lab.Host, _, _ string) (*lab.Plugin, error) {
			p := &lab.Plugin{Name: "erofs", Differ: "walking"}
			help, err := exec.CommandContext(ctx, "mkfs.erofs", "--help").CombinedOutput()
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(help), "--tar=") {
				p.Differ = "erofs"
				p.Config = "[plugins.\"io.containerd.service.v1.diff-service\"]\ndefault = [\"erofs\", \"walking\"]\n"
			}
			return p, nil
		},
	}
}
