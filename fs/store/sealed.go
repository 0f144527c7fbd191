package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSeal bounds the file of a seal, in bytes.
const maxSeal = 4096

// scan registers the sealed files and removes all others: what they hold is
// rebuilt from blocks.
func (x *flats) scan(s *Store) error {
	dir := filepath.Join(s.root, "flat")
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	trusted := map[string]bool{}
	for _, d := range names {
		name, ok := strings.CutSuffix(d.Name(), sealSuffix)
		if !ok {
			continue
		}
		f, err := openSealed(filepath.Join(dir, name))
		if err != nil || x.files[f.id] != nil || !strings.HasPrefix(name, flatName(f.id)+"-") {
			continue
		}
		trusted[name], trusted[d.Name()] = true, true
		x.add(f)
		x.used.Add(f.bytes())
		x.sealed += f.bytes()
	}
	for _, d := range names {
		if _, n, ok := strings.Cut(strings.TrimSuffix(d.Name(), sealSuffix), "-"); ok {
			if seq, err := strconv.ParseUint(n, 10, 64); err == nil {
				x.seq = max(x.seq, seq)
			}
		}
		if !trusted[d.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, d.Name())); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	s.makeRoom(x.used.Load() - s.opts.MaxFlatBytes)
	return nil
}

// openSealed returns the file at path if its seal is true.
func openSealed(path string) (*flat, error) {
	p, err := readSmall(path + sealSuffix)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(p, []byte("\n"))
	var mark seal
	if err := json.Unmarshal(line, &mark); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	want, err := sealOf(file, mark.FlatID)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(p, want) {
		return nil, errors.New("the seal is not of this file")
	}
	f := newFlat(mark.FlatID, path)
	f.count, f.sealed = f.blocks, true
	f.inode, err = file.Stat()
	return f, err
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSeal))
}
