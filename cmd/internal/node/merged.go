package node

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
)

// merged keeps plans that were merged on this VM, in one file each: a merge of
// many layers takes longer than the mount. A file is the SHA-256 of the rest, in
// hex and a line, then a line of JSON, then the image.
type merged struct{ dir string }

type mergedHeader struct {
	Version int            `json:"version"`
	Devices []mergedDevice `json:"devices"`
}

type mergedDevice struct {
	Blob  digest.Digest `json:"blob"`
	Table []byte        `json:"table"`
}

// mergedVersion changes with the format, and with anything in how layers are merged.
const mergedVersion = 1

func (m merged) path(r run) string { return filepath.Join(m.dir, r.key) }

// load gives the plan of r if there is a whole one. What is damaged counts as absent.
func (m merged) load(r run) (*plan, bool) {
	header, img, err := readMerged(m.path(r))
	if err != nil {
		return nil, false
	}
	p := &plan{image: img}
	for _, d := range header.Devices {
		table, err := block.ParseTable(d.Table)
		if err != nil {
			return nil, false
		}
		p.devices = append(p.devices, tape{d.Blob, table})
	}
	return p, true
}

func readMerged(path string) (h mergedHeader, img []byte, err error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return h, nil, err
	}
	sum, rest, _ := bytes.Cut(p, []byte("\n"))
	if fmt.Sprintf("%x", sha256.Sum256(rest)) != string(sum) {
		return h, nil, fmt.Errorf("%s is damaged", path)
	}
	head, img, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(head, &h); err != nil {
		return h, nil, err
	}
	if h.Version != mergedVersion {
		return h, nil, fmt.Errorf("%s has version %d", path, h.Version)
	}
	return h, img, nil
}

// save keeps the plan. The file is not synced: its sum says whether it is whole.
func (m merged) save(r run, p *plan) (err error) {
	h := mergedHeader{Version: mergedVersion}
	for _, d := range p.devices {
		table, err := d.table.AppendBinary(nil)
		if err != nil {
			return err
		}
		h.Devices = append(h.Devices, mergedDevice{d.blob, table})
	}
	rest, err := json.Marshal(h)
	if err != nil {
		return err
	}
	rest = append(append(rest, '\n'), p.image...)
	f, err := os.CreateTemp(m.dir, ".tmp-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = fmt.Fprintf(f, "%x\n", sha256.Sum256(rest))
	if err == nil {
		_, err = f.Write(rest)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), m.path(r))
}

// maxMerged bounds the plans kept: one whose lower directories are gone is of no
// use, and nothing says so.
const maxMerged = 64

// retain drops the plans that need a blob which is not live, and the oldest.
func (m merged) retain(live func(digest.Digest) bool) error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var errs []error
	kept := map[string]time.Time{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // being written
			continue
		}
		path := filepath.Join(m.dir, e.Name())
		fi, err := e.Info()
		if err == nil && wanted(path, live) {
			kept[path] = fi.ModTime()
		} else {
			errs = append(errs, remove(path))
		}
	}
	oldest := slices.SortedFunc(maps.Keys(kept), func(a, b string) int { return kept[a].Compare(kept[b]) })
	for _, path := range oldest[:max(0, len(oldest)-maxMerged)] {
		errs = append(errs, remove(path))
	}
	return errors.Join(errs...)
}

// remove is content when somebody else was quicker.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// wanted reads no more than the header.
func wanted(path string, live func(digest.Digest) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if _, err := r.ReadBytes('\n'); err != nil {
		return false
	}
	head, err := r.ReadBytes('\n')
	if err != nil {
		return false
	}
	var h mergedHeader
	if json.Unmarshal(head, &h) != nil || h.Version != mergedVersion {
		return false
	}
	return !slices.ContainsFunc(h.Devices, func(d mergedDevice) bool { return !live(d.Blob) })
}
