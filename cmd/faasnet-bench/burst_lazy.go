package main

import (
	"context"
	"fmt"

	"github.com/faasnet/faasnet/script/lab"
)

// laziness notes, when all starts have ended, what tells a system that fetches
// what is read from one that in truth pulls the whole image.
func (b *burst) laziness(ctx context.Context, row *burstRow, starts []*start) (err error) {
	how := b.plan.system()
	if !how.Lazy || row.Full {
		return nil
	}
	for i, s := range starts {
		if s.err != nil {
			continue
		}
		mounts, err := lab.MountsOf(s.vm.Dir(), "fuse")
		if err != nil {
			return err
		}
		row.PerVM[i].FUSEMounts = len(mounts)
		if row.ImageBytes == 0 {
			if row.ImageBytes, err = layerBytes(ctx, s.vm.Containerd, b.ref(how.Tag)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fallback says why a lazy system's burst was a full pull in truth; "": it was
// none. Snapshotters that mount layers do so by FUSE, and give others to
// containerd to unpack: with no such mount nothing was lazy.
func (r *burstRow) fallback() string {
	const whole = 0.95 // of the image's layers
	if r.ImageBytes == 0 {
		return ""
	}
	for _, vm := range r.PerVM {
		if vm.Error == "" && vm.VM != r.Struck && vm.FUSEMounts == 0 {
			return "nothing is mounted lazily on " + vm.VM
		}
	}
	if of := float64(r.ReceivedBytes) / float64(r.ImageBytes); of >= whole {
		return fmt.Sprintf("a VM was sent %.0f %% of the image's layers", 100*of)
	}
	return ""
}
