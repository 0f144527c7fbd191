package store

import (
	"github.com/faasnet/faasnet/fs/block"
)

// entry is one compressed block or section on disk.
type entry struct {
	sum        block.Sum
	size       int64 // bytes on disk
	owners     []*blob
	section    bool
	verified   bool   // since Open, or written since Open
	prev, next *entry // LRU ring; nil for a section
}

// index is what the store has, in order of use: lru.next was used last. Its
// user holds Store.mu.
type index struct {
	entries      map[block.Sum]*entry
	lru          entry // head of the ring
	blocks       int
	bytes        int64 // of blocks, those being written included
	sections     int
	sectionBytes int64
}

func (x *index) init() {
	x.entries = map[block.Sum]*entry{}
	x.lru.prev, x.lru.next = &x.lru, &x.lru
}

// insert adds e as the block used last. Its bytes are counted unless they were
// reserved before.
func (x *index) insert(e *entry, reserved bool) {
	x.entries[e.sum] = e
	if e.section {
		x.sections++
		x.sectionBytes += e.size
		return
	}
	x.blocks++
	if !reserved {
		x.bytes += e.size
	}
	x.link(e)
}

func (x *index) remove(e *entry) {
	delete(x.entries, e.sum)
	if e.section {
		x.sections--
		x.sectionBytes -= e.size
		return
	}
	x.blocks--
	x.bytes -= e.size
	e.unlink()
}

// touch makes e the block used last.
func (x *index) touch(e *entry) {
	if !e.section && x.lru.next != e {
		e.unlink()
		x.link(e)
	}
}

// oldest returns the block used least recently, nil if there is none.
func (x *index) oldest() *entry {
	if x.lru.prev == &x.lru {
		return nil
	}
	return x.lru.prev
}

func (x *index) link(e *entry) {
	e.prev, e.next = &x.lru, x.lru.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// onDisk is what a file of n bytes takes, in whole pages.
func onDisk(n int64) int64 { return (n + 4095) &^ 4095 }
