package fetch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/block/blocktest"
	"github.com/faasnet/faasnet/fs/store"
)

// What the fill and read-ahead have in flight ends when the layer's last user
// closes it, without a word, and nothing of a blob that nobody wants is kept.
func TestLayerIsLeft(t *testing.T) {
	before := log.L.Logger.ReplaceHooks(logrus.LevelHooks{})
	defer log.L.Logger.ReplaceHooks(before)
	for name, dead := range map[string]bool{"closed": false, "closed and removed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				of := blocktest.NewLayer(1, blockSize, 40*blockSize)
				origin := blocktest.Count(blocktest.Delay(of.Source(), 5*time.Second))
				var gone atomic.Bool
				s := newStore(t, store.Options{Live: func(digest.Digest) bool { return !gone.Load() }})
				f, err := New(s, func(digest.Digest) block.Source {
					if gone.Load() {
						return nil
					}
					return origin
				}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				said := logtest.NewLocal(log.L.Logger)
				background(t, f)
				l := openLayer(t, f, of)
				for i := range int64(3) { // starts read-ahead
					span, err := l.View(t.Context(), i*blockSize, blockSize)
					if err != nil {
						t.Fatal(err)
					}
					span.Done()
				}
				l.Fill()
				time.Sleep(DefaultFillQuiet + time.Second)
				if now, _ := origin.Live(); now == 0 {
					t.Fatal("nothing is in flight")
				}
				gone.Store(dead)
				l.Close()
				time.Sleep(time.Second)
				synctest.Wait()
				if n, _ := origin.Live(); n != 0 {
					t.Errorf("%d requests go on", n)
				}
				if dead {
					if err := s.Retain(func(digest.Digest) bool { return false }); err != nil {
						t.Fatal(err)
					}
				}
				asked := origin.Calls()
				time.Sleep(10 * fillPause)
				if n := origin.Calls() - asked; n != 0 {
					t.Errorf("%d requests for a layer that nobody has open", n)
				}
				for _, e := range said.AllEntries() {
					t.Errorf("the log says %q", e.Message)
				}
				if u := s.Usage(); dead && (u.BlockBytes != 0 || u.FlatBytes != 0) {
					t.Errorf("left: %+v", u)
				} else if !dead && u.Blocks == 0 {
					t.Error("blocks of a layer that is wanted are gone")
				}
			})
		})
	}
}
