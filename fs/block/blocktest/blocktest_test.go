package blocktest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/fs/block"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	Test(t, func(*testing.T) (block.Source, func(block.Ref, []byte)) {
		m := &Memory{}
		return m, m.Put
	})
}

func TestWrappersConform(t *testing.T) {
	for name, wrap := range map[string]func(block.Source) block.Source{
		"count": func(s block.Source) block.Source { return Count(s) },
		"delay": func(s block.Source) block.Source { return Delay(s, time.Nanosecond) },
		"fail":  func(s block.Source) block.Source { return Fail(s, 0, errors.New("never")) },
		"flip":  func(s block.Source) block.Source { return Flip(s, 0) },
		"gate": func(s block.Source) block.Source {
			g := NewGate(s)
			g.Open()
			return g
		},
	} {
		t.Run(name, func(t *testing.T) {
			Test(t, func(*testing.T) (block.Source, func(block.Ref, []byte)) {
				m := &Memory{}
				return wrap(m), m.Put
			})
		})
	}
}

func TestFaults(t *testing.T) {
	l := NewLayer(1, block.MinSize, 3*block.MinSize)
	ref, dst := l.Ref(1), []byte("abc")
	src := Fail(Truncate(Flip(l.Source(), 1), 2, 10), 1, errdefs.ErrUnavailable)

	if got, err := src.ReadBlock(t.Context(), ref, dst); !errdefs.IsUnavailable(err) || len(got) != len(dst) {
		t.Errorf("first read: %d bytes, %v; want ErrUnavailable", len(got), err)
	}
	for i, size := range []int{10, 10, ref.Size} {
		got, err := src.ReadBlock(t.Context(), ref, dst)
		if err != nil || len(got) != len(dst)+size || !bytes.HasPrefix(got, dst) {
			t.Fatalf("read %d: %d bytes, %v; want %d", i, len(got), err, len(dst)+size)
		}
	}
	if err := ref.Verify(l.Frame(1)); err != nil {
		t.Errorf("a wrapper changed the layer: %v", err)
	}
	got, err := Flip(l.Source(), -1).ReadBlock(t.Context(), ref, nil)
	if err != nil || !errdefs.IsDataLoss(ref.Verify(got)) {
		t.Errorf("flip: %v, verify %v; want ErrDataLoss", err, ref.Verify(got))
	}
}

func TestDelayAndHang(t *testing.T) {
	l := NewLayer(1, block.MinSize, block.MinSize)
	synctest.Test(t, func(t *testing.T) {
		for name, src := range map[string]block.Source{"delay": Delay(l.Source(), time.Hour), "hang": Hang()} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			if _, err := src.ReadBlock(ctx, l.Ref(0), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v", name, err)
			}
			if d := time.Since(start); d != time.Second {
				t.Errorf("%s: returned after %v, want 1s", name, d)
			}
			cancel()
		}
		start := time.Now()
		read(t, Delay(l.Source(), time.Hour), l.Ref(0), l.Frame(0))
		if d := time.Since(start); d != time.Hour {
			t.Errorf("read took %v, want 1h", d)
		}
	})
}

func TestGateHoldsReads(t *testing.T) {
	l := NewLayer(1, block.MinSize, 2*block.MinSize)
	c := Count(l.Source())
	g := NewGate(c)
	done := make(chan error)
	for i := range 2 {
		go func() {
			_, err := g.ReadBlock(t.Context(), l.Ref(i), nil)
			done <- err
		}()
	}
	if a, b := <-g.Entered(), <-g.Entered(); a == b {
		t.Errorf("%v entered twice", a)
	}
	if n := c.Calls(); n != 0 {
		t.Errorf("%d reads passed a closed gate", n)
	}
	g.Pass()
	if err := <-done; err != nil {
		t.Error(err)
	}
	g.Open()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, most := c.Live(); c.Calls() != 2 || most < 1 {
		t.Errorf("%d calls, at most %d at a time", c.Calls(), most)
	}
}

func TestLayerIsWhatItSays(t *testing.T) {
	d := block.NewDecoder()
	l := NewLayer(3, block.MinSize, 5*block.MinSize+7)
	var all []byte
	l.Each(func(ref block.Ref, frame []byte) {
		if err := ref.Verify(frame); err != nil {
			t.Error(err)
		}
		var err error
		if all, err = d.Decode(all, frame, len(l.Block(ref.Number))); err != nil {
			t.Error(err)
		}
	})
	if !bytes.Equal(all, l.Stream) {
		t.Error("the frames do not give the stream")
	}
}
