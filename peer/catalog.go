package peer

import (
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Catalog says which blocks belong to which function, by what this VM itself has
// verified: a VM is sent blocks of functions it has a token for, and pushed
// blocks are believed, by this alone. It also remembers in which order the VM's
// own container read them. It is safe for concurrent use; the zero value is not
// ready.
type Catalog struct {
	mu        sync.RWMutex // guards all below
	functions map[string]*image
	blobs     map[digest.Digest][]*image // that have the blob as a layer
	changed   chan struct{}              // closed and replaced with each change
}

// Layer is a layer of a function's image, without the index layer.
type Layer struct {
	Blob  digest.Digest
	Table *block.Table
}

// image is what the catalog knows of a function.
type image struct {
	function string
	sections []block.Ref
	layers   []Layer // nil: not known yet
	base     []int   // number of the first block of each layer, over the image
	order    []int   // first reads, by number over the image
	seen     map[int]struct{}
}

// position is where a block is in a function's image.
type position struct {
	function string
	number   int // over the whole image; of a section 0
}

// NewCatalog returns an empty Catalog.
func NewCatalog() *Catalog {
	return &Catalog{functions: map[string]*image{}, blobs: map[digest.Digest][]*image{}, changed: make(chan struct{})}
}

// Add makes the function known with sections of its layers. It may be called
// again with more.
func (c *Catalog) Add(function string, sections ...block.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.functions[function]
	if m == nil {
		m = &image{function: function, seen: map[int]struct{}{}}
		c.functions[function] = m
	}
	for _, ref := range sections {
		if !slices.Contains(m.sections, ref) {
			m.sections = append(m.sections, ref)
		}
	}
	c.change()
}

// SetLayers says what the function's image is made of, bottom first, once that
// is known. Sections that are not known by then are not the function's.
func (c *Catalog) SetLayers(function string, layers []Layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.functions[function]
	if m == nil || m.layers != nil {
		return
	}
	m.layers = slices.Clone(layers)
	if m.layers == nil {
		m.layers = []Layer{}
	}
	n := 0
	for _, l := range layers {
		m.base = append(m.base, n)
		n += l.Table.Len()
		if !slices.Contains(c.blobs[l.Blob], m) {
			c.blobs[l.Blob] = append(c.blobs[l.Blob], m)
		}
	}
	c.change()
}

// Remove forgets a function.
func (c *Catalog) Remove(function string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.functions[function]
	if m == nil {
		return
	}
	delete(c.functions, function)
	for _, l := range m.layers {
		c.blobs[l.Blob] = slices.DeleteFunc(c.blobs[l.Blob], func(o *image) bool { return o == m })
		if len(c.blobs[l.Blob]) == 0 {
			delete(c.blobs, l.Blob)
		}
	}
	c.change()
}

// Touched notes that a container of this VM reads a block for the first time.
func (c *Catalog) Touched(ref block.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.blobs[ref.Blob] {
		n, ok := m.number(ref)
		if _, seen := m.seen[n]; !ok || seen || len(m.order) >= maxOrder {
			continue
		}
		m.seen[n] = struct{}{}
		m.order = append(m.order, n)
	}
}

// Count returns of how many blocks of the function's image has is true. It is
// called without a lock.
func (c *Catalog) Count(function string, has func(block.Ref) bool) (n uint64) {
	c.mu.RLock()
	m := c.functions[function]
	var layers []Layer
	if m != nil {
		layers = m.layers // never changed once set
	}
	c.mu.RUnlock()
	for _, l := range layers {
		for i := range l.Table.Len() {
			if has(l.Table.Ref(l.Blob, i)) {
				n++
			}
		}
	}
	return n
}

// change wakes who waits for news. The caller holds mu.
func (c *Catalog) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Catalog) changes() <-chan struct{} {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changed
}

// complete reports whether the function's layers are known.
func (c *Catalog) complete(function string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m := c.functions[function]
	return m != nil && m.layers != nil
}

// holds reports whether ref is a block or a section of the function, in all that
// it says. known is false while that may still turn out.
func (c *Catalog) holds(function string, ref block.Ref) (holds, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m := c.functions[function]
	if m == nil {
		return false, true
	}
	if ref.Number == block.Section {
		holds = slices.Contains(m.sections, ref)
		return holds, holds || m.layers != nil
	}
	_, holds = m.number(ref)
	return holds, m.layers != nil
}

// find returns each function that ref is of.
func (c *Catalog) find(ref block.Ref) []position {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []position
	if ref.Number == block.Section {
		for name, m := range c.functions {
			if slices.Contains(m.sections, ref) {
				out = append(out, position{name, 0})
			}
		}
		return out
	}
	for _, m := range c.blobs[ref.Blob] {
		if n, ok := m.number(ref); ok {
			out = append(out, position{m.function, n})
		}
	}
	return out
}

// order returns in which order the function's blocks were first read here.
func (c *Catalog) order(function string) []int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if m := c.functions[function]; m != nil {
		return slices.Clone(m.order)
	}
	return nil
}

// refs returns the blocks with these numbers.
func (c *Catalog) refs(function string, numbers []int) []block.Ref {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m := c.functions[function]
	if m == nil || m.layers == nil {
		return nil
	}
	out := make([]block.Ref, 0, len(numbers))
	for _, n := range numbers {
		i, exact := slices.BinarySearch(m.base, n)
		if !exact {
			i--
		}
		for exact && i+1 < len(m.base) && m.base[i+1] == n { // layers without blocks
			i++
		}
		if i >= 0 && n-m.base[i] < m.layers[i].Table.Len() {
			out = append(out, m.layers[i].Table.Ref(m.layers[i].Blob, n-m.base[i]))
		}
	}
	return out
}

// number returns the number of a block over the image.
func (m *image) number(ref block.Ref) (int, bool) {
	for i, l := range m.layers {
		if l.Blob == ref.Blob && ref.Number >= 0 && ref.Number < l.Table.Len() && l.Table.Ref(l.Blob, ref.Number) == ref {
			return m.base[i] + ref.Number, true
		}
	}
	return 0, false
}
