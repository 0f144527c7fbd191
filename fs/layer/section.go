package layer

import (
	"encoding/binary"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// A section is one zstd skippable frame: 8 bytes of frame header, 24 bytes of
// section header, a zstd frame.
const (
	skippableMagic = 0x184D2A57 // free for users, like all of 0x184D2A50 to 5F; RFC 8878, section 3.1.2
	frameHeader    = 8
	sectionMagic   = "FAASNET\x00"
	sectionHeader  = 24
	sectionPrefix  = frameHeader + sectionHeader
)

// kind says what a section holds.
type kind uint16

const (
	kindMeta  kind = 1
	kindImage kind = 2
)

// String names the kind for errors.
func (k kind) String() string {
	switch k {
	case kindMeta:
		return "metadata section"
	case kindImage:
		return "image section"
	}
	return fmt.Sprintf("section of kind %d", uint16(k))
}

// seal returns the section's bytes in the blob. body is at most
// block.MaxDecoded bytes and the result at most block.MaxSection, or the error
// matches errdefs.ErrInvalidArgument.
func seal(k kind, body []byte) ([]byte, error) {
	if len(body) > block.MaxDecoded {
		return nil, fmt.Errorf("%v: %d bytes, at most %d: %w", k, len(body), block.MaxDecoded, errdefs.ErrInvalidArgument)
	}
	window := block.MinSize
	for window < len(body) && window < block.MaxSize {
		window *= 2
	}
	enc, err := block.NewEncoder(block.LevelBetter, window)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	p := le.AppendUint32(nil, skippableMagic)
	p = le.AppendUint32(p, 0) // payload size, set below
	p = append(p, sectionMagic...)
	p = le.AppendUint16(p, Version)
	p = le.AppendUint16(p, uint16(k))
	p = le.AppendUint32(p, sectionHeader)
	p = le.AppendUint64(p, uint64(len(body)))
	p = enc.Encode(p, body)
	if len(p) > block.MaxSection {
		return nil, fmt.Errorf("%v: %d bytes compressed, at most %d: %w", k, len(p), block.MaxSection, errdefs.ErrInvalidArgument)
	}
	le.PutUint32(p[4:], uint32(len(p)-frameHeader))
	return p, nil
}

// header is a section's prefix, checked.
type header struct {
	kind    kind
	payload int // bytes behind the frame header
	body    int // bytes of the body, decoded
	start   int // of the compressed body in the payload
}

// parseHeader reads the first sectionPrefix bytes of a section. Errors match
// errdefs.ErrInvalidArgument, or errdefs.ErrNotImplemented for a version that
// is not ours.
func parseHeader(p []byte) (header, error) {
	if len(p) < sectionPrefix {
		return header{}, fmt.Errorf("section: %d bytes are too short: %w", len(p), errdefs.ErrInvalidArgument)
	}
	le := binary.LittleEndian
	if m := le.Uint32(p); m != skippableMagic {
		return header{}, fmt.Errorf("section: frame magic %#x, want %#x: %w", m, skippableMagic, errdefs.ErrInvalidArgument)
	}
	if m := string(p[8:16]); m != sectionMagic {
		return header{}, fmt.Errorf("section: magic %q, want %q: %w", m, sectionMagic, errdefs.ErrInvalidArgument)
	}
	payload, version, start, body := le.Uint32(p[4:]), le.Uint16(p[16:]), le.Uint32(p[20:]), le.Uint64(p[24:])
	h := header{kind: kind(le.Uint16(p[18:]))}
	if version != Version {
		return header{}, fmt.Errorf("%v: version %d, this reader knows %d: %w", h.kind, version, Version, errdefs.ErrNotImplemented)
	}
	if payload > block.MaxSection-frameHeader || start < sectionHeader || start > payload || body > block.MaxDecoded {
		return header{}, fmt.Errorf("%v: payload of %d bytes, header of %d, body of %d: %w",
			h.kind, payload, start, body, errdefs.ErrInvalidArgument)
	}
	h.payload, h.body, h.start = int(payload), int(body), int(start)
	return h, nil
}

// open returns the decoded body of a section, p being exactly the section.
func open(want kind, p []byte) ([]byte, error) {
	h, err := parseHeader(p)
	if err != nil {
		return nil, err
	}
	if h.kind != want {
		return nil, fmt.Errorf("%v: is a %v: %w", want, h.kind, errdefs.ErrInvalidArgument)
	}
	if h.payload != len(p)-frameHeader {
		return nil, fmt.Errorf("%v: payload of %d bytes in %d: %w", want, h.payload, len(p), errdefs.ErrInvalidArgument)
	}
	body, err := block.NewDecoder().Decode(nil, p[frameHeader+h.start:], h.body)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", want, err)
	}
	return body, nil
}
