package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
)

// TestWait: what ends a recording while the container runs. No task is asked then.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		until string
		end   string // what ends it
		how   string
		err   error
	}{
		{end: "timeout", how: "the timeout of 2s was over"},
		{until: "READY", end: "timeout", err: context.DeadlineExceeded},
		{until: "READY", end: "text", how: `it printed "READY"`},
		{end: "signal", err: context.Canceled},
	} {
		t.Run(c.end+" "+c.until, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := recording{until: c.until, timeout: 2 * time.Second}
				found := newFinder(c.until)
				stdout, stderr := found.stream(), found.stream()
				time.AfterFunc(time.Second, func() {
					switch c.end {
					case "text":
						for _, w := range []string{"it is RE", "ADY"} {
							_, _ = io.WriteString(stdout, w)
							_, _ = io.WriteString(stderr, "or not")
						}
					case "signal":
						cancel()
					}
				})
				began := time.Now()
				runs, err := r.wait(ctx, nil, make(chan containerd.ExitStatus), found)
				want := time.Second
				if c.end == "timeout" {
					want = r.timeout
				}
				if took := time.Since(began); !runs || took != want || !errors.Is(err, c.err) || r.how != c.how {
					t.Errorf("after %v it ended when %q, %v, running: %v", took, r.how, err, runs)
				}
			})
		})
	}
}

// TestShown: who reads no longer what the container prints does not end it.
func TestShown(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	found := newFinder("b")
	if _, err := io.Copy(io.MultiWriter(found.stream(), &shown{w: w}), io.MultiReader(strings.NewReader("a"), strings.NewReader("b"))); err != nil || !found.isDone() {
		t.Errorf("error is %v, found: %v", err, found.isDone())
	}
}
