package lab

import (
	"fmt"
	"strings"
)

// Plugin is a snapshotter that a containerd has besides overlayfs.
type Plugin struct {
	Name    string // as containerd knows it
	Address string // socket of its daemon; "": it is one of containerd's own
	Root    string // where its daemon keeps its state
	Differ  string // containerd's plugin that unpacks layers for it; "": the default
	Config  string // further TOML of containerd's, tables only
	Daemon  *Proc  // nil: none, or our own
}

// toml is what containerd must know of it. The proxy plugin and the entry of
// unpack_config are those of docs/containerd.md.
func (p *Plugin) toml(r Release) string {
	var b strings.Builder
	if p.Address != "" {
		fmt.Fprintf(&b, "[proxy_plugins.%s]\ntype = \"snapshot\"\naddress = %q\n", p.Name, p.Address)
		if r == Current {
			fmt.Fprintf(&b, "[proxy_plugins.%s.exports]\nroot = %q\nenable_remote_snapshot_annotations = \"true\"\n", p.Name, p.Root)
		}
	}
	if r == Current {
		b.WriteString(p.unpack())
	}
	b.WriteString(p.Config)
	return b.String()
}

// unpack lets containerd's transfer service pull for the snapshotter.
func (p *Plugin) unpack() string {
	entry := fmt.Sprintf("[[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]\nplatform = \"linux\"\nsnapshotter = %q\n", p.Name)
	if p.Differ != "" {
		entry += fmt.Sprintf("differ = %q\n", p.Differ)
	}
	return entry
}
