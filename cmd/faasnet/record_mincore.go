package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mincore says, a byte a page, which pages of the mapping p are in memory.
func mincore(p, resident []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(unsafe.Pointer(&resident[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
