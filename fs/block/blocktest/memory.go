package blocktest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// Memory is a Source of what was put into it, known by Sum. The zero value is
// empty and ready; it is safe for concurrent use.
type Memory struct {
	mu     sync.RWMutex
	blocks map[block.Sum][]byte
}

// Put makes m have p for every ref with the Sum of ref, right or wrong: it
// does not verify. It copies p.
func (m *Memory) Put(ref block.Ref, p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocks == nil {
		m.blocks = map[block.Sum][]byte{}
	}
	m.blocks[ref.Sum] = bytes.Clone(p)
}

// Drop makes m forget ref.
func (m *Memory) Drop(ref block.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blocks, ref.Sum)
}

// Len returns how many blocks m has.
func (m *Memory) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.blocks)
}

// ReadBlock implements block.Source. It does not verify.
func (m *Memory) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.blocks[ref.Sum]
	if !ok {
		return dst, fmt.Errorf("%v: %w", ref, errdefs.ErrNotFound)
	}
	return append(dst, p...), nil
}
