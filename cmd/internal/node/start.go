package node

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/layer"
)

// startShare is the part of the store, one in so many, that the blocks of one start
// layer may take: they must not drive out what containers have just read.
const startShare = 4

// starts are the start layers that this VM was asked for.
type starts struct {
	off bool

	mu    sync.Mutex // guards known and what is in it; no other lock is taken under it
	known map[digest.Digest]*startLayer
}

type startLayer struct {
	asked time.Time          // of the first time; later that of the last try
	tried bool               // a fetch has ended
	stop  context.CancelFunc // nil: it is not being fetched
}

// ask remembers a layer if it is a start layer.
func (s *starts) ask(info layer.Info) {
	if !info.Start || s.off {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[info.Digest] == nil {
		s.known[info.Digest] = &startLayer{asked: time.Now()}
	}
}

// any reports whether there is one whose fetch is not under way.
func (s *starts) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.known {
		if l.stop == nil {
			return true
		}
	}
	return false
}

// begin says that blob is being fetched, if it is a start layer and is not already.
// The caller owes end, and stops when the context ends.
func (s *starts) begin(ctx context.Context, blob digest.Digest) (_ context.Context, asked time.Time, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.known[blob]
	if l == nil || l.stop != nil {
		return nil, asked, nil
	}
	if l.tried {
		l.asked = time.Now()
	}
	ctx, l.stop = context.WithCancel(ctx)
	return ctx, l.asked, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.stop()
		l.stop, l.tried = nil, true
	}
}

// retain ends the fetch of those that are not live, and forgets them.
func (s *starts) retain(live func(digest.Digest) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for blob, l := range s.known {
		if live(blob) {
			continue
		}
		if l.stop != nil {
			l.stop()
		}
		delete(s.known, blob)
	}
}

// ahead fetches in the background what a container will read first: the start
// layer and then, where the image is news, what other VMs have learned.
func (n *Node) ahead(function string, layers []tape, news bool) {
	n.background(func(ctx context.Context) {
		n.rush(ctx, layers)
		if news {
			n.learn(ctx, function)
		}
	})
}

// rush fetches the topmost of an image's layers, bottom first, if it is a start
// layer. Others are none, whatever their labels say. What fails is left to whoever
// reads it.
func (n *Node) rush(ctx context.Context, layers []tape) {
	if len(layers) == 0 {
		return
	}
	top := layers[len(layers)-1]
	if n.origins.source(top.blob) == nil {
		return
	}
	ctx, asked, end := n.starts.begin(ctx, top.blob)
	if end == nil {
		return
	}
	defer end()
	l, err := n.fetcher.Layer(top.blob, top.table)
	if err != nil {
		log.G(ctx).WithError(err).Debug("start layer is not fetched")
		return
	}
	began := time.Now()
	log.G(ctx).WithField("layer", top.blob).WithField("after", began.Sub(asked)).Debug("start layer is being fetched")
	blocks, err := l.Rush(ctx, int64(n.cfg.Store.MaxBytes)/startShare)
	missing := l.Missing()
	n.metrics.rushed(asked, blocks, missing, top.table.Len(), ctx.Err())
	log.G(ctx).WithError(err).WithFields(log.Fields{"layer": top.blob, "blocks": blocks, "missing": missing, "of": top.table.Len(), "took": time.Since(began)}).
		Debug("fetch of the start layer has ended")
	if err := l.Close(); err != nil {
		log.G(ctx).WithError(err).Debug("start layer is left open")
	}
}

// tapes are the layers that an image section describes.
func tapes(image *layer.Image) []tape {
	out := make([]tape, len(image.Layers))
	for i, l := range image.Layers {
		out[i] = tape{l.Digest, l.Table}
	}
	return out
}
