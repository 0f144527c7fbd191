package indextest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tar builds a tar stream record by record, so that it can hold what the
// standard library's writer refuses. The zero value is an empty stream.
type Tar struct{ buf bytes.Buffer }

// Header is one entry. The zero values of Type, Mode and Mtime mean a regular
// file, 0644 (0755 for a directory) and 2001-09-09.
type Header struct {
	Name, Link   string
	Type         byte
	Mode         int64 // -1: zero
	UID, GID     int64
	Uname        string
	Mtime        time.Time
	Major, Minor int64
	Body         string
	Xattrs       map[string]string
	PAX          map[string]string // further records
	Size         int64             // of the size field, when not len(Body)
}

// Add writes entries.
func (t *Tar) Add(entries ...Header) *Tar {
	for _, h := range entries {
		t.add(h)
	}
	return t
}

// Bytes ends the stream with two zero records and returns it.
func (t *Tar) Bytes() []byte {
	return slices.Concat(t.buf.Bytes(), make([]byte, 1024))
}

// Len is the number of bytes written so far.
func (t *Tar) Len() int { return t.buf.Len() }

// Raw writes bytes as they are.
func (t *Tar) Raw(b []byte) *Tar {
	t.buf.Write(b)
	return t
}

func (t *Tar) add(h Header) {
	if h.Type == 0 {
		h.Type = tar.TypeReg
	}
	switch {
	case h.Mode == -1:
		h.Mode = 0
	case h.Mode == 0 && h.Type == tar.TypeDir:
		h.Mode = 0o755
	case h.Mode == 0:
		h.Mode = 0o644
	}
	if h.Mtime.IsZero() {
		h.Mtime = time.Unix(1e9, 0)
	}
	if h.Size == 0 {
		h.Size = int64(len(h.Body))
	}
	if pax := h.pax(); len(pax) > 0 {
		t.Raw(h.record("PaxHeader", 'x', int64(len(pax)), "", 0))
		t.padded(pax)
	}
	t.Raw(h.record(h.Name, h.Type, h.Size, h.Link, h.Mtime.Unix()))
	t.padded([]byte(h.Body))
}

func (t *Tar) padded(b []byte) {
	t.buf.Write(b)
	t.buf.Write(make([]byte, (512-len(b)%512)%512))
}

// pax returns the records that h needs.
func (h *Header) pax() []byte {
	records := map[string]string{}
	for k, v := range h.Xattrs {
		records["SCHILY.xattr."+k] = v
	}
	for k, v := range h.PAX {
		records[k] = v
	}
	if len(h.Name) > 99 {
		records["path"] = h.Name
	}
	if len(h.Link) > 99 {
		records["linkpath"] = h.Link
	}
	if h.Mtime.Nanosecond() != 0 || h.Mtime.Unix() < 0 || h.Mtime.Unix() >= 1<<33 {
		s := fmt.Sprintf("%d.%09d", h.Mtime.Unix(), h.Mtime.Nanosecond())
		if h.Mtime.Unix() < 0 {
			s = fmt.Sprint(h.Mtime.Unix())
		}
		records["mtime"] = s
	}
	for name, id := range map[string]int64{"uid": h.UID, "gid": h.GID} {
		if id >= 1<<21 {
			records[name] = fmt.Sprint(id)
		}
	}
	var keys []string
	for k := range records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b []byte
	for _, k := range keys {
		b = append(b, Record(k, records[k])...)
	}
	return b
}

// Record is one PAX record.
func Record(key, value string) string {
	n := len(key) + len(value) + 3
	for digits := 1; ; digits++ {
		if s := fmt.Sprint(n + digits); len(s) == digits {
			return fmt.Sprintf("%s %s=%s\n", s, key, value)
		}
	}
}

// record is a ustar header record.
func (h *Header) record(name string, kind byte, size int64, link string, mtime int64) []byte {
	b := make([]byte, 512)
	copy(b, name[:min(len(name), 100)])
	octal(b[100:108], h.Mode)
	octal(b[108:116], fit(h.UID, 1<<21))
	octal(b[116:124], fit(h.GID, 1<<21))
	octal(b[124:136], size)
	octal(b[136:148], fit(mtime, 1<<33))
	b[156] = kind
	copy(b[157:257], link[:min(len(link), 100)])
	copy(b[257:], "ustar\x0000")
	copy(b[265:], h.Uname)
	octal(b[329:337], h.Major)
	octal(b[337:345], h.Minor)
	Checksum(b)
	return b
}

// fit leaves to a PAX record what the field has no room for.
func fit(n, limit int64) int64 {
	if n < 0 || n >= limit {
		return 0
	}
	return n
}

// octal fills a numeric field, in base 256 when it is too large for octal.
func octal(b []byte, n int64) {
	s := fmt.Sprintf("%0*o\x00", len(b)-1, n)
	if len(s) <= len(b) {
		copy(b, s)
		return
	}
	for i := len(b) - 1; i > 0; i-- {
		b[i] = byte(n)
		n >>= 8
	}
	b[0] = 0x80
}

// Checksum sets the checksum of a header record.
func Checksum(b []byte) {
	copy(b[148:156], strings.Repeat(" ", 8))
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
}
