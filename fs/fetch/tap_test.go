package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

const (
	piece = 1024
	pace  = 10 * time.Millisecond // of a piece: a block of 4 KiB takes 40 ms
)

// drain reads a tap to its end and says when the first and the last piece came.
func drain(t *testing.T, tap block.Tap, err error) (p []byte, first, last time.Duration, end error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	began := time.Now()
	for {
		more, err := tap.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return p, first, last, nil
		}
		if err != nil {
			return p, first, last, err
		}
		if p == nil {
			first = time.Since(began)
		}
		p, last = append(p, more...), time.Since(began)
	}
}

// A tap has each piece when it arrives, not when the block is whole.
func TestTapIsCutThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
		up := &peers{sources: []block.Source{blocktest.Stream(of.Source(), piece, pace)}}
		var received []block.Ref
		f := newFetcher(t, newStore(t, store.Options{}), nil, Options{Upstreams: up, OnReceive: func(r block.Ref) { received = append(received, r) }})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				tap, err := f.Tap(t.Context(), of.Ref(0))
				p, first, last, err := drain(t, tap, err)
				if err != nil || !bytes.Equal(p, of.Frame(0)) {
					t.Errorf("%d bytes, %v", len(p), err)
				}
				if want := time.Duration((of.Ref(0).Size+piece-1)/piece) * pace; first != pace || last != want {
					t.Errorf("first piece after %v, last after %v, want %v and %v", first, last, pace, want)
				}
			})
		}
		wg.Wait()
		// The block is stored now, and comes from there.
		tap, err := f.Tap(t.Context(), of.Ref(0))
		if p, _, last, err := drain(t, tap, err); err != nil || last != 0 || !bytes.Equal(p, of.Frame(0)) {
			t.Errorf("from the store: %d bytes after %v, %v", len(p), last, err)
		}
		if len(received) != 1 || received[0] != of.Ref(0) {
			t.Errorf("told of %v", received)
		}
		synctest.Wait()
		if _, err := f.Watch(of.Ref(0)); !errdefs.IsNotFound(err) {
			t.Errorf("nothing is in flight, but: %v", err)
		}
	})
}

// PN-07: a source that breaks off in the middle of a block. The tap goes on with
// the next source where it was; where the first one's bytes were wrong it ends.
func TestPN07_TapGoesOnWithAnotherSource(t *testing.T) {
	of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		first block.Source
		abort bool
	}{
		"reset":   {blocktest.Break(blocktest.Stream(of.Source(), piece, pace), 1, 2*piece, reset), false},
		"wrong":   {blocktest.Stream(blocktest.Flip(of.Source(), -1), piece, pace), true},
		"late":    {blocktest.Stream(of.Source(), piece, time.Minute), false},
		"cut":     {blocktest.Stream(blocktest.Truncate(of.Source(), -1, 2*piece), piece, pace), false},
		"nothing": {&blocktest.Memory{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &peers{sources: []block.Source{c.first}}
				f := newFetcher(t, newStore(t, store.Options{}), blocktest.Stream(of.Source(), 100, time.Millisecond), Options{Upstreams: up})
				tap, err := f.Tap(t.Context(), of.Ref(0))
				p, _, _, err := drain(t, tap, err)
				if c.abort {
					if !errdefs.IsAborted(err) || bytes.Equal(p, of.Frame(0)) {
						t.Errorf("got %d bytes, %v, want an abort; right: %v", len(p), err, bytes.Equal(p, of.Frame(0)))
					}
				} else if err != nil || !bytes.Equal(p, of.Frame(0)) {
					t.Errorf("%d bytes, %v", len(p), err)
				}
				if p, err := f.ReadBlock(t.Context(), of.Ref(0), nil); err != nil || !bytes.Equal(p, of.Frame(0)) {
					t.Errorf("a reader has %d bytes, %v", len(p), err)
				}
				if blamed := len(up.blamed) > 0; blamed != (name == "wrong" || name == "cut") {
					t.Errorf("blamed %v", up.blamed)
				}
			})
		})
	}
}

// Nobody but a tap needs to want a block for its flight to go on; a watch does
// not keep one up.
func TestWatchDoesNotWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
		origin := blocktest.Stream(of.Source(), piece, time.Second)
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		tap, err := f.Tap(t.Context(), of.Ref(0))
		if err != nil {
			t.Fatal(err)
		}
		watch, err := f.Watch(of.Ref(0))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		tap.Close()
		if p, _, _, err := drain(t, watch, nil); !errdefs.IsAborted(err) || len(p) != piece {
			t.Errorf("%d bytes, %v, want an abort after %d", len(p), err, piece)
		}

		tap, err = f.Tap(t.Context(), of.Ref(0))
		if err != nil {
			t.Fatal(err)
		}
		watch, err = f.Watch(of.Ref(0))
		if p, _, _, err := drain(t, watch, err); err != nil || !bytes.Equal(p, of.Frame(0)) {
			t.Errorf("%d bytes, %v", len(p), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := tap.Next(ctx); err != nil {
			t.Errorf("what is there comes whatever the context: %v", err)
		}
		tap.Close()
	})
}

// A flight that fails with the end of a connection is not the end of a block: to
// whoever relays it that would be a good verdict on a part of it.
func TestFailedFlightIsNotTheEndOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := blocktest.Cut(blocktest.Random(1, blockSize), blockSize)
		ended := fmt.Errorf("connection: %w: %w", io.EOF, errdefs.ErrNotFound) // final: the origin is not asked again
		origin := blocktest.Break(blocktest.Stream(of.Source(), piece, pace), -1, 2*piece, ended)
		f := newFetcher(t, newStore(t, store.Options{}), origin, Options{})
		tap, err := f.Tap(t.Context(), of.Ref(0))
		if err != nil {
			t.Fatal(err)
		}
		defer tap.Close()
		for err == nil {
			_, err = tap.Next(t.Context())
		}
		if errors.Is(err, io.EOF) || !errdefs.IsAborted(err) {
			t.Errorf("got %v", err)
		}
	})
}
