package index

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// PAX records of GNU tar's sparse files, versions 0.0, 0.1 and 1.0.
// archive/tar turns 0.0 into 0.1.
const (
	sparseMajor = "GNU.sparse.major"
	sparseMinor = "GNU.sparse.minor"
	sparseMap   = "GNU.sparse.map"
)

// fileData says where the bytes of the entry that hdr describes are; in stands
// at the first of them.
func fileData(hdr *tar.Header, in *tap) ([]Range, error) {
	if hdr.Typeflag != tar.TypeReg {
		return nil, nil
	}
	segments, sparse, err := sparseSegments(hdr, in)
	if err != nil {
		return nil, err
	}
	if !sparse && hdr.Size == 0 {
		return nil, nil
	}
	if !sparse {
		return []Range{{Offset: in.n, Size: hdr.Size}}, nil
	}
	var data []Range
	pos := in.n
	for _, s := range segments {
		if s.Size == 0 {
			continue
		}
		end := s.Logical + s.Size
		if s.Logical%BlockSize != 0 || pos%BlockSize != 0 || end%BlockSize != 0 && end != hdr.Size {
			return nil, fmt.Errorf("sparse file: data at %d+%d does not lie on %d-byte borders: %w", s.Logical, s.Size, BlockSize, errdefs.ErrInvalidArgument)
		}
		s.Offset = pos
		pos += s.Size
		data = appendRange(data, s)
	}
	if got, err := in.dataSize(hdr); err != nil || got != pos-in.n {
		return nil, fmt.Errorf("sparse file: map lists %d bytes of data, the entry has %d: %w", pos-in.n, got, errdefs.ErrInvalidArgument)
	}
	return data, nil
}

// appendRange joins r to the last range where it continues it.
func appendRange(data []Range, r Range) []Range {
	if i := len(data) - 1; i >= 0 {
		p := &data[i]
		if p.Device == r.Device && p.Logical+p.Size == r.Logical && p.Offset+p.Size == r.Offset {
			p.Size += r.Size
			return data
		}
	}
	return append(data, r)
}

// sparseSegments returns Logical and Size of a sparse file's segments.
// archive/tar has already checked order, overlap and bounds of the map, but
// does not show it.
func sparseSegments(hdr *tar.Header, in *tap) ([]Range, bool, error) {
	var numbers []string
	major, minor := hdr.PAXRecords[sparseMajor], hdr.PAXRecords[sparseMinor]
	switch {
	case major == "1" && minor == "0":
		m, err := in.sparseMap()
		if err != nil {
			return nil, false, err
		}
		numbers = m
	case major == "0" && (minor == "0" || minor == "1"), major == "" && minor == "" && hdr.PAXRecords[sparseMap] != "":
		if m := hdr.PAXRecords[sparseMap]; m != "" {
			numbers = strings.Split(m, ",")
		}
	default:
		return nil, false, nil
	}
	segments := make([]Range, 0, len(numbers)/2)
	for ; len(numbers) >= 2; numbers = numbers[2:] {
		off, err1 := strconv.ParseInt(numbers[0], 10, 64)
		size, err2 := strconv.ParseInt(numbers[1], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, false, fmt.Errorf("sparse map: %q, %q: %w", numbers[0], numbers[1], errdefs.ErrInvalidArgument)
		}
		segments = append(segments, Range{Logical: off, Size: size})
	}
	return segments, true, nil
}

// sparseMap returns the numbers of a version 1.0 map: it stands in front of
// the data, a count and then offsets and lengths, one a line.
func (t *tap) sparseMap() ([]string, error) {
	hdr, err := t.header()
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(t.kept[hdr+BlockSize:]))
	if !lines.Scan() {
		return nil, fmt.Errorf("sparse map: %w", io.ErrUnexpectedEOF)
	}
	count, err := strconv.Atoi(lines.Text())
	if err != nil {
		return nil, fmt.Errorf("sparse map: %q: %w", lines.Text(), errdefs.ErrInvalidArgument)
	}
	var numbers []string
	for len(numbers) < 2*count && lines.Scan() {
		numbers = append(numbers, lines.Text())
	}
	if len(numbers) != 2*count {
		return nil, fmt.Errorf("sparse map: %w", io.ErrUnexpectedEOF)
	}
	return numbers, nil
}

// dataSize is the number of bytes of the entry's data after its map, from the
// size field: hdr.Size says the size of the file.
func (t *tap) dataSize(hdr *tar.Header) (int64, error) {
	at, err := t.header()
	if err != nil {
		return 0, err
	}
	size, err := parseNumber(t.kept[at+124 : at+136])
	if s := hdr.PAXRecords["size"]; s != "" {
		size, err = strconv.ParseInt(s, 10, 64)
	}
	return size - int64(len(t.kept)-at-BlockSize), err
}
