package peer

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// Bounds of what a message may hold.
const (
	maxName    = 255       // bytes of the name of a VM
	maxText    = 4096      // bytes of a function, a token, a reason
	maxPath    = 64        // VMs in a path
	maxOrder   = 4096      // blocks in an order: a start reads about 400
	maxBlob    = 255       // bytes of a digest
	defaultHop = uint8(40) // a tree of 2^40 VMs is deep enough
)

// id stands for the name of a VM in a path: the first 8 bytes of its SHA-256.
type id uint64

// hello introduces a VM.
type hello struct{ vm string }

// open asks for a function. The handle is of the side that sends it.
type open struct {
	handle   uint32
	function string
	token    string
}

// get asks for a block.
type get struct {
	handle uint32
	hops   uint8
	ref    block.Ref
	path   []id // who waits, the first asker first
}

// follow asks for, or gives up, the blocks of one stripe.
type follow struct {
	handle          uint32
	stripe, stripes uint8
}

// push announces a block.
type push struct {
	handle uint32
	ref    block.Ref
}

func (m hello) marshal() []byte { return text8(nil, m.vm) }

func (m open) marshal() []byte {
	b := binary.BigEndian.AppendUint32(nil, m.handle)
	return text16(text16(b, m.function), m.token)
}

func (m get) marshal() []byte {
	b := binary.BigEndian.AppendUint32(nil, m.handle)
	b = append(b, m.hops)
	return appendPath(appendRef(b, m.ref), m.path)
}

func (m follow) marshal() []byte {
	return append(binary.BigEndian.AppendUint32(nil, m.handle), m.stripe, m.stripes)
}

func (m push) marshal() []byte {
	return appendRef(binary.BigEndian.AppendUint32(nil, m.handle), m.ref)
}

func appendRef(b []byte, r block.Ref) []byte {
	b = text8(b, r.Blob.String())
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Number)))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Size))
	return append(b, r.Sum[:]...)
}

func appendPath(b []byte, path []id) []byte {
	path = path[:min(len(path), maxPath)]
	b = append(b, byte(len(path)))
	for _, v := range path {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func appendOrder(b []byte, numbers []int) []byte {
	for _, n := range numbers[:min(len(numbers), maxOrder)] {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func text8(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func text16(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// reader takes a payload apart. After the first thing that is missing or out of
// bounds it is bad and gives zeros. What follows the last known field is
// ignored, for later versions.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.p) {
		r.bad = true
		return make([]byte, min(n, 64))
	}
	p := r.p[:n]
	r.p = r.p[n:]
	return p
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) text(n, limit int) string {
	if n > limit || n > len(r.p) {
		r.bad = true
		return ""
	}
	s := string(r.take(n))
	r.bad = r.bad || !utf8.ValidString(s)
	return s
}

func (r *reader) text8(limit int) string { return r.text(int(r.u8()), limit) }

func (r *reader) text16(limit int) string {
	return r.text(int(binary.BigEndian.Uint16(r.take(2))), limit)
}

func (r *reader) ref() block.Ref {
	ref := block.Ref{
		Blob: digest.Digest(r.text8(maxBlob)), Number: int(int32(r.u32())), Offset: int64(r.u64()), Size: int(r.u32()),
	}
	copy(ref.Sum[:], r.take(len(ref.Sum)))
	if r.bad || ref.Blob.Validate() != nil || ref.Number < block.Section || ref.Number >= block.MaxBlocks ||
		ref.Offset < 0 || ref.Size < 1 || ref.Size > block.MaxSection {
		r.bad = true
	}
	return ref
}

func (r *reader) path() []id {
	n := int(r.u8())
	if n > maxPath {
		r.bad = true
		return nil
	}
	path := make([]id, n)
	for i := range path {
		path[i] = id(r.u64())
	}
	return path
}

func (r *reader) order() []int {
	if len(r.p)%4 != 0 || len(r.p)/4 > maxOrder {
		r.bad = true
		return nil
	}
	out := make([]int, 0, len(r.p)/4)
	for len(r.p) > 0 {
		out = append(out, int(r.u32()))
	}
	return out
}

func (r *reader) end(what string) error {
	if r.bad {
		return fmt.Errorf("malformed %s: %w", what, errProtocol)
	}
	return nil
}

func parseHello(p []byte) (hello, error) {
	r := reader{p: p}
	m := hello{r.text8(maxName)}
	r.bad = r.bad || m.vm == ""
	return m, r.end("HELLO")
}

func parseOpen(p []byte) (open, error) {
	r := reader{p: p}
	m := open{r.u32(), r.text16(maxText), r.text16(maxText)}
	return m, r.end("OPEN")
}

func parseGet(p []byte) (get, error) {
	r := reader{p: p}
	m := get{handle: r.u32(), hops: r.u8(), ref: r.ref(), path: r.path()}
	return m, r.end("GET")
}

func parseFollow(p []byte) (follow, error) {
	r := reader{p: p}
	m := follow{r.u32(), r.u8(), r.u8()}
	r.bad = r.bad || m.stripe >= m.stripes
	return m, r.end("FOLLOW")
}

func parsePush(p []byte) (push, error) {
	r := reader{p: p}
	m := push{r.u32(), r.ref()}
	return m, r.end("PUSH")
}
