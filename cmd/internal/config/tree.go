package config

import (
	"slices"
	"strings"
	"time"

	"github.com/faasnet/faasnet/peer"
	"github.com/faasnet/faasnet/treeclient"
)

// Tree says who tells this VM which other VMs to read from.
type Tree struct {
	Enabled      bool     `toml:"enabled"`
	Coordinators []string `toml:"coordinators"`
	VM           string   `toml:"vm"`
	Credential   string   `toml:"credential"`
	CA           string   `toml:"ca"`
	Certificate  string   `toml:"certificate"`
	Key          string   `toml:"key"`
	Strict       bool     `toml:"strict"`
	JoinTimeout  Duration `toml:"join_timeout"`
}

// Peer says how this VM reads from others and serves them.
type Peer struct {
	Address        string   `toml:"address"`
	Upload         Size     `toml:"upload"`
	MaxConnections int      `toml:"max_connections"`
	Silence        Duration `toml:"silence"`
	Order          bool     `toml:"order"`
	Certificate    string   `toml:"certificate"`
	Key            string   `toml:"key"`
	CA             string   `toml:"ca"`
}

func defaultTree() Tree {
	return Tree{Coordinators: []string{}, JoinTimeout: Duration(treeclient.DefaultWait)}
}

func defaultPeer() Peer {
	return Peer{Address: ":7000", MaxConnections: peer.DefaultMaxConns, Silence: Duration(peer.DefaultSilence), Order: true}
}

func (c *Config) validateTree(refuse func(bad bool, format string, args ...any)) {
	refuse(c.Tree.Enabled && len(c.Tree.Coordinators) == 0, "tree.enabled, but tree.coordinators is empty")
	for key, addresses := range map[string][]string{"tree.coordinators": c.Tree.Coordinators, "peer.address": {c.Peer.Address}} {
		for _, a := range addresses {
			refuse(!strings.Contains(a, ":") || !validAddress(a), "%s: %q is not host:port", key, a)
		}
	}
	refuse(time.Duration(c.Peer.Silence) < 2*peer.DefaultKeepAlive, "peer.silence %v is shorter than %v", c.Peer.Silence, 2*peer.DefaultKeepAlive)
	refuse(c.Tree.Strict && !c.Tree.Enabled, "tree.strict, but not tree.enabled")
	own := []string{c.Tree.CA, c.Tree.Certificate, c.Tree.Key}
	refuse(c.Tree.Certificate+c.Tree.Key != "" && slices.Contains(own, ""), "tree.certificate and tree.key belong together, and need tree.ca")
	tls := []string{c.Peer.Certificate, c.Peer.Key, c.Peer.CA}
	refuse(slices.Contains(tls, "") && strings.Join(tls, "") != "", "peer.certificate, peer.key and peer.ca belong together")
}
