package wires

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
)

// overHTTP is net/http: a GET for each block, over connections that are kept.
type overHTTP struct {
	config  Config
	load    *Load
	fetcher *fetch.Fetcher
	client  *http.Client
}

func newHTTP(c Config, load *Load) wire {
	return &overHTTP{config: c, load: load, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: fetch.DefaultSlots, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10, DisableCompression: true,
	}}}
}

func (h *overHTTP) received(block.Ref) {}

func (h *overHTTP) Sources(block.Ref) []block.Source {
	if h.config.Above == "" {
		return nil
	}
	return []block.Source{h}
}

func (h *overHTTP) serve(ctx context.Context, l net.Listener, f *fetch.Fetcher) error {
	h.fetcher = f
	s := &http.Server{Handler: h}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	h.client.CloseIdleConnections()
	return nil
}

func (h *overHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || i < 0 || i >= h.load.table.Len() {
		http.NotFound(w, r)
		return
	}
	ref := h.load.ref(i)
	w.Header().Set("Content-Length", strconv.Itoa(ref.Size))
	if f, err := h.fetcher.Open(r.Context(), ref); err == nil {
		defer f.Close()
		if _, err := io.Copy(w, f); err != nil { // by sendfile
			panic(http.ErrAbortHandler)
		}
		return
	}
	if tapped(r.Context(), h.fetcher, ref, func(p []byte) error { _, err := w.Write(p); return err }) != nil {
		panic(http.ErrAbortHandler)
	}
}

// tapped calls piece with the pieces of a block as they arrive here.
func tapped(ctx context.Context, f *fetch.Fetcher, ref block.Ref, piece func([]byte) error) error {
	tap, err := f.Tap(ctx, ref)
	if err != nil {
		return err
	}
	defer tap.Close()
	for {
		p, err := tap.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := piece(p); err != nil {
			return err
		}
	}
}

func (h *overHTTP) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return h.StreamBlock(ctx, ref, room(dst, ref), func(int) {})
}

// room returns dst with room for the block.
func room(dst []byte, ref block.Ref) []byte {
	return append(dst, make([]byte, ref.Size)...)[:len(dst)]
}

func (h *overHTTP) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/%d", h.config.Upstream, ref.Number), nil)
	if err != nil {
		return dst, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return dst, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return dst, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	p := dst[len(dst) : len(dst)+ref.Size]
	for n := 0; n < len(p); {
		m, err := resp.Body.Read(p[n:])
		if n += m; n < len(p) && err != nil {
			return dst, err
		}
		arrived(n)
	}
	return dst[:len(dst)+ref.Size], nil
}
