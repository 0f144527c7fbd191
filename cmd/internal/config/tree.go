package config

import (
	"net"
	"slices"
	"strconv"
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

// maxVM is what the relay and the coordinator take for a name, in bytes.
const maxVM = 255

// dialable reports whether address is [host]:port of TCP, with a port that another
// VM can be told.
func dialable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.ParseUint(port, 10, 16)
	return err == nil && perr == nil && n > 0 && !strings.Contains(host, "/")
}

func (c *Config) validateTree(refuse func(bad bool, format string, args ...any)) {
	refuse(c.Tree.Enabled && len(c.Tree.Coordinators) == 0, "tree.enabled, but tree.coordinators is empty")
	for _, a := range c.Tree.Coordinators {
		refuse(!dialable(a) || strings.HasPrefix(a, ":"), "tree.coordinators: %q is not host:port", a)
	}
	refuse(!dialable(c.Peer.Address), "peer.address: %q is not host:port or :port", c.Peer.Address)
	refuse(len(c.Tree.VM) > maxVM, "tree.vm is longer than %d bytes", maxVM)
	refuse(time.Duration(c.Peer.Silence) < 2*peer.DefaultKeepAlive, "peer.silence %v is shorter than %v", c.Peer.Silence, 2*peer.DefaultKeepAlive)
	refuse(c.Tree.Strict && !c.Tree.Enabled, "tree.strict, but not tree.enabled")
	own := []string{c.Tree.CA, c.Tree.Certificate, c.Tree.Key}
	refuse(c.Tree.Certificate+c.Tree.Key != "" && slices.Contains(own, ""), "tree.certificate and tree.key belong together, and need tree.ca")
	tls := []string{c.Peer.Certificate, c.Peer.Key, c.Peer.CA}
	refuse(slices.Contains(tls, "") && strings.Join(tls, "") != "", "peer.certificate, peer.key and peer.ca belong together")
}
