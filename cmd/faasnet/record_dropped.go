package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/faasnet/faasnet/convert/start"
)

// dropped is how often the page cache of the machine was dropped, as the kernel
// says it (vm/drop_caches): what files have in it then says nothing of what was
// used of them. proc is where procfs is.
func dropped(proc string) string {
	text, err := os.ReadFile(filepath.Join(proc, "vmstat"))
	if err != nil {
		return ""
	}
	_, n, _ := strings.Cut(string(text), "\ndrop_pagecache ")
	n, _, _ = strings.Cut(n, "\n")
	return n
}

// forgetUsed takes from a record how much of its files was used.
func forgetUsed(r start.Record) {
	for i := range r {
		r[i].Used = nil
	}
}
