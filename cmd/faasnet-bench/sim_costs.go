package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/internal/sim"
	"github.com/faasnet/faasnet/fs/block"
)

// measureCosts measures what bytes cost: a relay between real processes says what
// comes in and goes out, a loop what is decoded.
func measureCosts(ctx context.Context) (c sim.Costs, err error) {
	const size = sim.BlockSize
	program, err := someBlocks(size) // compresses as what images are made of does
	if err != nil {
		return c, err
	}
	encoder, err := block.NewEncoder(block.Level(0), size)
	if err != nil {
		return c, err
	}
	var frames [][]byte
	for p := range slices.Chunk(program, size) {
		frames = append(frames, encoder.Encode(nil, p))
	}
	decoder, out := block.NewDecoder(), make([]byte, 0, size)
	next := 0
	if c.Decode, err = perByte(size, func() error {
		next = (next + 1) % len(frames)
		_, err := decoder.Decode(out, frames[next], size)
		return err
	}); err != nil {
		return c, err
	}
	hash, err := perByte(size, func() error {
		_ = sha256.Sum256(program[:size])
		return nil
	})
	if err != nil {
		return c, err
	}
	r := relays{rate: "1gbit", blocks: 512}
	if r.bench, err = newBench(ctx); err != nil {
		return c, err
	}
	defer r.close(&err)
	var receive, send []float64
	for range 3 {
		alone, err := r.once(ctx, "faasnet")
		if err != nil {
			return c, err
		}
		both, err := r.once(ctx, "faasnet", "left", "right")
		if err != nil {
			return c, err
		}
		receive = append(receive, alone.CPU/float64(alone.Bytes)-c.Decode) // it has read them too
		send = append(send, (both.CPU-alone.CPU)/float64(both.Relayed))
	}
	c.Receive, c.Send = max(hash, median(receive)), max(0, median(send))
	return c, nil
}

// someBlocks are some blocks from the middle of this program's own file.
func someBlocks(size int) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	const blocks = 16
	middle := (len(p) - blocks*size) / 2
	if middle < 0 {
		return nil, fmt.Errorf("%s has %d bytes only", self, len(p))
	}
	return p[middle:][:blocks*size], nil
}

// perByte is the CPU time of a byte in work, which handles so many at a time, in
// seconds.
func perByte(size int, work func() error) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := threadTime()
	if err != nil {
		return 0, err
	}
	for n := 1; ; n++ {
		if err := work(); err != nil {
			return 0, err
		}
		now, err := threadTime()
		if err != nil {
			return 0, err
		}
		if took := now - begin; took > 500*time.Millisecond {
			return took.Seconds() / float64(n) / float64(size), nil
		}
	}
}

func threadTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
