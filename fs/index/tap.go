package index

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// maxKept bounds what a tap keeps of one entry's headers, in bytes.
// archive/tar bounds each PAX header and each sparse map at 1 MiB.
const maxKept = 4 << 20

// tap counts the bytes that a tar.Reader takes and keeps those of the headers
// of the entry that it stands at.
//
// It relies on two habits of archive/tar: Reader.Next leaves the stream at the
// first byte of the entry's data, and it skips the data of the entry before by
// Seek where it can, so that what is read after the Seek is headers.
type tap struct {
	r    io.Reader
	n    int64 // bytes taken
	from int64 // stream offset of kept[0]
	kept []byte
	end  int64 // where the data of the entry before ends, without padding
	err  error
}

// mark forgets what was kept.
func (t *tap) mark() { t.from, t.kept = t.n, t.kept[:0] }

func (t *tap) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.r.Read(p)
	t.n += int64(n)
	if len(t.kept)+n > maxKept {
		t.err = fmt.Errorf("headers of one entry have more than %d bytes: %w", maxKept, errdefs.ErrInvalidArgument)
		return 0, t.err
	}
	t.kept = append(t.kept, p[:n]...)
	return n, err
}

// Seek skips forward: from the current position, or (SeekEnd, 0) all the rest.
func (t *tap) Seek(off int64, whence int) (int64, error) {
	if off == 0 && whence == io.SeekCurrent {
		return t.n, nil
	}
	r := t.r
	if whence == io.SeekCurrent {
		r = io.LimitReader(r, off)
	}
	n, err := io.Copy(io.Discard, r)
	t.n += n
	t.mark()
	if err == nil && whence == io.SeekCurrent && n < off {
		err = io.ErrUnexpectedEOF
	}
	return t.n, err
}

// header returns the index in kept of the entry's own header record, which
// follows its PAX and GNU long name headers.
func (t *tap) header() (int, error) {
	at := int((t.end+BlockSize-1)/BlockSize*BlockSize - t.from)
	for at+BlockSize <= len(t.kept) {
		rec := t.kept[at : at+BlockSize]
		if !strings.ContainsRune("xgLK", rune(rec[156])) {
			return at, nil
		}
		size, err := parseNumber(rec[124:136])
		if err != nil || size < 0 || size > maxKept {
			break
		}
		at += BlockSize + int(size+BlockSize-1)/BlockSize*BlockSize
	}
	return 0, fmt.Errorf("header of a sparse file not found: %w", errdefs.ErrInvalidArgument)
}

// parseNumber parses a numeric field of a tar header: octal digits, or
// big-endian binary when the top bit is set.
func parseNumber(b []byte) (int64, error) {
	if b[0]&0x80 == 0 {
		s := strings.Trim(string(b), " \x00")
		if s == "" {
			return 0, nil
		}
		return strconv.ParseInt(s, 8, 64)
	}
	n := int64(b[0] & 0x7f)
	for _, c := range b[1:] {
		if n > 1<<54 {
			return 0, strconv.ErrRange
		}
		n = n<<8 | int64(c)
	}
	return n, nil
}
