// Package start makes start layers: copies of the files that a container of an
// image opens when it starts, in the order in which it opens them, as one more
// layer. Unpacked on top of the image it changes nothing; fetched front to back
// it has what a start reads, and nothing else.
package start

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/containerd/errdefs"
)

// Limits of a record. A path has at most PATH_MAX bytes, which JSON may make
// six times as long. The record of a start is some 100 KiB.
const (
	MaxBytes = 16 << 20 // of a whole record

	maxLine  = 64 << 10
	maxFiles = 1 << 20
)

// Entry is one line of a record: a file that was opened. Lines are JSON
// objects, as tools for eStargz write them (ctr-remote, nerdctl); fields other
// than these are ignored.
type Entry struct {
	// Path is relative to the image's root, without symbolic links. It may be
	// no UTF-8.
	Path string `json:"path"`
	// Bytes is how a path that is no UTF-8, which JSON has no strings for, is
	// written: then Path has U+FFFD in the file. Read leaves it nil.
	Bytes []byte `json:"pathBytes,omitempty"`
	// Manifest is the digest of the manifest of the image that was run.
	Manifest string `json:"manifestDigest,omitempty"`
	// Used is how many bytes of the file's content were read; nil: not known.
	Used *int64 `json:"usedBytes,omitempty"`
}

// Record lists the files that a start opens, in the order of first use.
type Record []Entry

// Read reads a record: one JSON object a line, blank lines ignored. Of several
// lines with one path the first counts. The error matches
// errdefs.ErrInvalidArgument and names the line.
func Read(r io.Reader) (Record, error) {
	var out Record
	seen := make(map[string]bool)
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if len(text) > MaxBytes {
		return nil, errTooLarge
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		e, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("record: line %d: %w", n, err)
		}
		if seen[e.Path] {
			continue
		}
		if len(out) == maxFiles {
			return nil, fmt.Errorf("record: line %d: more than %d files: %w", n, maxFiles, errdefs.ErrInvalidArgument)
		}
		seen[e.Path] = true
		out = append(out, e)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("record: line %d: more than %d bytes: %w", n+1, maxLine, errdefs.ErrInvalidArgument)
	} else if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("record: names no file: %w", errdefs.ErrInvalidArgument)
	}
	return out, nil
}

func parse(line []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	if e.Used != nil && *e.Used < 0 {
		return e, fmt.Errorf("usedBytes is %d: %w", *e.Used, errdefs.ErrInvalidArgument)
	}
	if len(e.Bytes) > 0 {
		e.Path, e.Bytes = string(e.Bytes), nil
	}
	parts := strings.Split(e.Path, "/")
	if strings.ContainsRune(e.Path, 0) || slices.Contains(parts, "..") {
		return e, fmt.Errorf("path %q: %w", e.Path, errdefs.ErrInvalidArgument)
	}
	clean := strings.TrimPrefix(path.Clean("/"+e.Path), "/")
	if clean == "" {
		return e, fmt.Errorf("no path: %w", errdefs.ErrInvalidArgument)
	}
	e.Path = clean
	return e, nil
}

// Write writes a record as Read reads it. The error matches
// errdefs.ErrInvalidArgument if Read would refuse it for its size.
func (r Record) Write(w io.Writer) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	for _, e := range r {
		if !utf8.ValidString(e.Path) {
			e.Bytes = []byte(e.Path)
		}
		if err := out.Encode(e); err != nil {
			return err
		}
		if text.Len() > MaxBytes {
			return errTooLarge
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}

var errTooLarge = fmt.Errorf("record: more than %d MiB: %w", MaxBytes>>20, errdefs.ErrInvalidArgument)
