package store

import (
	"fmt"
	"os"

	"github.com/containerd/errdefs"
)

// Pins keep the blocks first to last of a flat file present and its descriptor
// open. The zero value holds nothing.
type Pins struct {
	flat        *flat
	file        *os.File
	first, last int
}

// File is the flat file, for reads inside the pinned blocks only. It stays
// open until Release; its user neither closes nor writes it.
func (p Pins) File() *os.File { return p.file }

// Release gives the pins up. It is called once.
func (p Pins) Release() {
	f := p.flat
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pins != nil {
		for i := p.first; i <= p.last; i++ {
			f.pins[i]--
		}
	}
	f.leave()
}

// Pin pins the blocks first to last if all of them are present, else none: ok
// is false and the caller brings them with Write. The error is that of opening
// the file.
func (f *Flat) Pin(first, last int) (p Pins, ok bool, err error) {
	f.mu.Lock()
	if first < 0 || last < first || last >= f.blocks || !f.all(first, last) {
		f.mu.Unlock()
		return Pins{}, false, nil
	}
	opened, err := f.enter()
	if err != nil {
		f.mu.Unlock()
		return Pins{}, false, err
	}
	if f.pins != nil {
		for i := first; i <= last; i++ {
			f.pins[i]++
			f.recent.set(i)
		}
	}
	p = Pins{f.flat, f.file, first, last}
	f.mu.Unlock()
	if opened {
		f.store.flats.trim(f.store.opts.MaxOpenFlat)
	}
	return p, true, nil
}

// all reports whether the blocks are present. The caller holds mu.
func (f *flat) all(first, last int) bool {
	if f.sealed {
		return true
	}
	for i := first; i <= last; i++ {
		if !f.present.has(i) {
			return false
		}
	}
	return true
}

// enter opens the file, if it is not open, and counts one user more. The caller
// holds mu.
func (f *flat) enter() (opened bool, err error) {
	if f.file == nil {
		flag := os.O_RDWR
		if f.sealed {
			flag = os.O_RDONLY
		}
		file, err := os.OpenFile(f.path, flag, 0)
		if err != nil {
			return false, err
		}
		if st, err := file.Stat(); err != nil || !os.SameFile(st, f.inode) || st.Size() != f.id.Length {
			file.Close()
			return false, fmt.Errorf("%s is not the file that was made there: %w", f.path, errdefs.ErrDataLoss)
		}
		f.file, opened = file, true
		f.opened.Add(1)
	}
	f.users++
	return opened, nil
}

// leave is the opposite of enter. The caller holds mu.
func (f *flat) leave() {
	f.users--
	if f.users == 0 && f.closed {
		f.shut()
	}
}

// close closes the file, now or with its last user. The caller holds mu.
func (f *flat) close() {
	f.closed = true
	if f.users == 0 {
		f.shut()
	}
}

// shut closes the descriptor; enter opens it again. The caller holds mu and
// has seen that there are no users.
func (f *flat) shut() {
	if f.file != nil {
		f.file.Close() // written data is in the page cache, sealed data on the disk
		f.file = nil
		f.opened.Add(-1)
	}
}
