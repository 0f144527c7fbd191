package peer

import (
	"encoding/binary"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// preface is what each side sends first. Its last byte is the version.
const preface = "faasnet\x01"

// headerSize of a frame: type u8, flags u8, reserved u16, tag u32, length u32,
// big endian.
const headerSize = 12

// maxPayload bounds the payload of a frame, in bytes.
const maxPayload = 256 << 10

// pieceSize is the largest DATA that we send on a slow connection, in bytes: small
// enough that an on-demand block waits for one piece only, large enough that system
// calls cost little. It is also how much of a block is received before it is passed
// on, however large the DATA.
const pieceSize = 64 << 10

// kind is the type of a frame.
type kind uint8

// Frame types. docs/relay.md explains them; the numbers never change.
const (
	frameHello   kind = 1
	framePing    kind = 2
	framePong    kind = 3
	frameOpen    kind = 4
	frameOK      kind = 5
	frameRefused kind = 6
	frameGet     kind = 7
	frameData    kind = 8
	frameEnd     kind = 9
	frameAbort   kind = 10
	frameNotYet  kind = 11
	frameNotHave kind = 12
	frameMoved   kind = 13
	frameFollow  kind = 14
	frameLeave   kind = 15
	framePush    kind = 16
	frameOrder   kind = 17
	frameOrdered kind = 18
	frameCancel  kind = 19
	frameUrge    kind = 20
)

// flagPush marks DATA, END, ABORT, CANCEL and URGE of a push: the tag is then of the
// side that pushes. Without it the tag is of the side that asked.
const flagPush = 1

// flagStored in a GET asks for what is stored only.
const flagStored = 2

// A GET with one of these is for nobody who waits; in an URGE of one flagSoon says
// how urgent it is now. Without them somebody waits.
const (
	flagSoon  = 4 // it will be read soon
	flagLater = 8 // the rest of a layer
)

// urgencyFlags are those of a GET or an URGE.
func urgencyFlags(u block.Urgency) uint8 {
	switch u {
	case block.Now:
		return 0
	case block.Soon:
		return flagSoon
	default:
		return flagLater
	}
}

func (h header) urgency() block.Urgency {
	switch {
	case h.flags&flagLater != 0:
		return block.Later
	case h.flags&flagSoon != 0:
		return block.Soon
	default:
		return block.Now
	}
}

// header of a frame.
type header struct {
	kind  kind
	flags uint8
	tag   uint32
	size  uint32 // of the payload
}

func (h header) push() bool { return h.flags&flagPush != 0 }

func (h header) append(b []byte) []byte {
	b = append(b, byte(h.kind), h.flags, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.tag)
	return binary.BigEndian.AppendUint32(b, h.size)
}

func parseHeader(p []byte) (header, error) {
	h := header{
		kind: kind(p[0]), flags: p[1],
		tag: binary.BigEndian.Uint32(p[4:]), size: binary.BigEndian.Uint32(p[8:]),
	}
	if h.size > maxPayload {
		return h, fmt.Errorf("frame of type %d with %d bytes: %w", h.kind, h.size, errProtocol)
	}
	return h, nil
}

// errProtocol is a violation of the protocol. The connection ends with it.
var errProtocol = fmt.Errorf("protocol violated: %w", errdefs.ErrInvalidArgument)
