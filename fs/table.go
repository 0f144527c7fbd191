package fs

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// rootID is the FUSE node id of the directory that holds the files.
const rootID = 1

// node is one file of the FUSE mount. Its name is its id in decimal. An id is
// never used twice while the mount lives: the kernel keeps names and attributes
// for a year and is never told to forget one.
type node struct {
	id     uint64
	file   File
	size   int64
	refs   int          // guarded by table.mu
	active atomic.Int64 // READs being served
}

func (n *node) name() string { return strconv.FormatUint(n.id, 10) }

// table is the flat directory of files that mounts use.
type table struct {
	mu   sync.RWMutex // guards all below; a leaf lock
	byID map[uint64]*node
	of   map[File]*node
	last uint64
}

func newTable() *table {
	return &table{byID: map[uint64]*node{}, of: map[File]*node{}, last: rootID}
}

// use gives the node of f, a new one when no mount uses f yet.
func (t *table) use(f File) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.of[f]
	if !ok {
		t.last++
		n = &node{id: t.last, file: f, size: f.Size()}
		t.byID[n.id], t.of[f] = n, n
	}
	n.refs++
	return n
}

// drop undoes one use.
func (t *table) drop(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.refs--; n.refs == 0 {
		delete(t.byID, n.id)
		delete(t.of, n.file)
	}
}

func (t *table) get(id uint64) (*node, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, ok := t.byID[id]
	return n, ok
}

func (t *table) lookup(name string) (*node, bool) {
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return nil, false
	}
	n, ok := t.get(id)
	return n, ok && n.name() == name
}

// after lists the nodes with ids above id, in order.
func (t *table) after(id uint64) []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var l []*node
	for _, n := range t.byID {
		if n.id > id {
			l = append(l, n)
		}
	}
	slices.SortFunc(l, func(a, b *node) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return l
}
