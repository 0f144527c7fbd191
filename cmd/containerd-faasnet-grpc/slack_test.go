package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAllThreadsAreSlack(t *testing.T) {
	if err := slacken(); err != nil {
		t.Fatal(err)
	}
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		p, err := os.ReadFile(filepath.Join("/proc", filepath.Base(task), "timerslack_ns"))
		if os.IsNotExist(err) { // it has ended
			continue
		}
		if got := strings.TrimSpace(string(p)); err != nil || got != timerSlack {
			t.Errorf("%s: slack %q, want %s; %v", task, got, timerSlack, err)
		}
	}
}
