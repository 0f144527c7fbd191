package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// timerSlack is how late the kernel may wake a thread that sleeps for a time, in
// nanoseconds. While a thread waits in a system call, as one does for the next
// FUSE request, the Go runtime's monitor thread sleeps 20 us at a time until that
// has lasted 10 ms; the default slack of 50 us makes 70 of it. On a VM that is
// starting a function these wake-ups were an eighth of the daemon's CPU time, and
// with 500 us still a tenth. The price is that a timer fires so late, and that a
// thread which is stuck in a system call is seen so late.
const timerSlack = "2000000"

// slacken sets the timer slack of all threads; those that they will start
// inherit it.
func slacken() error {
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tasks {
		// Only here, not below task/. One that has ended needs none.
		err := os.WriteFile(filepath.Join("/proc", filepath.Base(t), "timerslack_ns"), []byte(timerSlack), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("timer slack: %w", err))
		}
	}
	return errors.Join(errs...)
}
