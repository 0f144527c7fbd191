package etcdjournal

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/faasnet/faasnet/cmd/internal/coordinator"
)

// ring is the addresses of the coordinators that live, sorted.
type ring []string

// owner returns which of them keeps k: the one with the highest hash. self
// always lives.
func (r ring) owner(k coordinator.Key, self string, dead []string) (best string) {
	var most uint64
	for _, address := range r {
		if address != self && slices.Contains(dead, address) {
			continue
		}
		if h := hash(address, k); best == "" || h > most {
			best, most = address, h
		}
	}
	return best
}

func hash(address string, k coordinator.Key) uint64 {
	b := make([]byte, 0, 128+len(k.Function))
	for _, s := range [...]string{address, k.Tenant, k.Function} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}
