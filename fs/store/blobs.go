package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/block"
)

// A blob's file says which sums it wants: records of 32 bytes, a header, then
// sections, then block i at record sectionSlots+1+i. Each has its place, so that
// the file cannot outgrow the layer however often blocks come and go; a record
// of zeros is empty. Nothing is believed for it but which blob keeps a block.
const (
	blobHeader   = "faasnet blob 1\n"
	sectionSlots = 7
	recordSize   = len(block.Sum{})
)

// blob is a layer blob that wants blocks.
type blob struct {
	name   string // of its file in blobs/
	digest digest.Digest

	gone     atomic.Bool // by Retain; set under mu
	mu       sync.Mutex  // guards the file and the fields below; taken before Store.mu
	sections []block.Sum
	next     int // section slot to reuse when all are taken
}

// own adds b to e's owners. The caller holds Store.mu.
func (e *entry) own(b *blob) {
	if !slices.Contains(e.owners, b) {
		e.owners = append(e.owners, b)
	}
}

// own remembers that ref's blob wants e. Where that cannot be written it is
// known until Close only: the price is a fetch after a later Retain.
func (s *Store) own(ref block.Ref, e *entry) {
	if !s.lives(ref.Blob) {
		return
	}
	if b, _ := s.record(ref); b != nil {
		s.mu.Lock()
		e.own(b)
		s.mu.Unlock()
	}
}

// record writes into the file of ref's blob that it wants ref. The blob is
// returned even if that fails, unless it has no valid name.
func (s *Store) record(ref block.Ref) (*blob, error) {
	if err := ref.Blob.Validate(); err != nil {
		return nil, fmt.Errorf("blob %q: %w", ref.Blob, err)
	}
	name := blobName(ref.Blob)
	for {
		s.mu.Lock()
		b := s.blobs[name]
		if b == nil {
			b = &blob{name: name, digest: ref.Blob}
			s.blobs[name] = b
		}
		s.mu.Unlock()
		b.mu.Lock()
		if b.gone.Load() { // Retain came between: it is wanted again
			b.mu.Unlock()
			continue
		}
		slot := sectionSlots + 1 + ref.Number
		if ref.Number == block.Section {
			slot = b.sectionSlot(ref.Sum)
		}
		err := writeRecord(filepath.Join(s.root, "blobs", name), slot, ref.Sum)
		b.mu.Unlock()
		return b, err
	}
}

// sectionSlot returns the record for a section. The caller holds b.mu.
func (b *blob) sectionSlot(sum block.Sum) int {
	if i := slices.Index(b.sections, sum); i >= 0 {
		return 1 + i
	}
	if len(b.sections) < sectionSlots {
		b.sections = append(b.sections, sum)
		return len(b.sections)
	}
	i := b.next
	b.next = (b.next + 1) % sectionSlots
	b.sections[i] = sum
	return 1 + i
}

func writeRecord(path string, slot int, sum block.Sum) error {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Size == 0 {
		if err := pwrite(fd, []byte(blobHeader), 0); err != nil {
			return err
		}
	}
	return pwrite(fd, sum[:], int64(slot*recordSize))
}

// loadBlob reads which sums the blob of a file wants and calls want for each.
func (s *Store) loadBlob(name string, want func(*blob, block.Sum)) (err error) {
	path := filepath.Join(s.root, "blobs", name)
	alg, enc, _ := strings.Cut(name, "-")
	d := digest.NewDigestFromEncoded(digest.Algorithm(alg), enc)
	if d.Validate() != nil {
		return os.Remove(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := &blob{name: name, digest: d}
	buf := make([]byte, 64<<10)
	for slot := 0; ; {
		n, err := io.ReadFull(f, buf)
		for p := buf[:n]; len(p) >= recordSize; p = p[recordSize:] {
			sum := block.Sum(p[:recordSize])
			switch {
			case slot == 0 && !bytes.HasPrefix(sum[:], []byte(blobHeader)):
				return os.Remove(path) // torn by a crash
			case slot == 0 || sum == block.Sum{}:
			case slot <= sectionSlots:
				b.sections = append(b.sections, sum)
				want(b, sum)
			default:
				want(b, sum)
			}
			slot++
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	s.blobs[name] = b
	return nil
}

func blobName(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() }

// removeFile removes path, which may be gone.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
