package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/layer"
)

// run is what a mount shows: layers, and what is below them.
type run struct {
	layers   []layer.Info // bottom first, never empty
	lower    []string     // top first
	key      string       // two runs with equal keys show the same
	function string       // that the top layer is of; empty: not known
}

// run reads the labels of the layers and remembers where they come from.
// n.retaining is read-locked.
func (n *Node) run(labels []map[string]string, lower []string) (run, error) {
	if len(labels) == 0 {
		return run{}, fmt.Errorf("no layers to mount: %w", errdefs.ErrInvalidArgument)
	}
	r := run{lower: lower}
	h := sha256.New()
	for _, l := range labels {
		info, err := n.origins.parse(l)
		if err != nil {
			return run{}, err
		}
		n.list(l, info)
		n.starts.ask(info)
		r.layers = append(r.layers, info)
		r.function = functionOf(l, info)
		fmt.Fprintf(h, "layer %v %d %v", info.Digest, info.Size, info.Meta.Sum)
		if info.Image != nil {
			fmt.Fprintf(h, " image %v", info.Image.Sum)
		}
		fmt.Fprintln(h)
	}
	n.origins.share(r.layers, labels)
	for _, dir := range lower {
		if err := n.identify(h, dir); err != nil {
			return run{}, err
		}
	}
	r.key = hex.EncodeToString(h.Sum(nil))
	return r, nil
}

// identify writes what makes the content of a lower directory: the key of a mount
// of ours, else the identity of the directory, whose content does not change
// as long as the snapshot exists.
func (n *Node) identify(h hash.Hash, dir string) error {
	n.mu.Lock()
	s, ours := n.dirs[dir]
	n.mu.Unlock()
	if ours {
		fmt.Fprintf(h, "mount %s\n", s.key)
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("lower directory %s: %w", dir, err)
	}
	fmt.Fprintf(h, "dir %q %d %d %d.%d\n", dir, st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
	return nil
}
