package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
)

// checkRange refuses an answer that is not exactly the bytes of ref.
func checkRange(resp *http.Response, ref block.Ref) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%s: %s: %w", redacted(resp.Request.URL), fmt.Sprintf(format, a...), errdefs.ErrUnavailable)
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return bad("answer is encoded as %q", enc)
	}
	if resp.StatusCode == http.StatusPartialContent {
		if err := checkTotal(resp, ref); err != nil {
			return err
		}
	}
	if resp.ContentLength >= 0 && resp.ContentLength != int64(ref.Size) {
		return bad("answer has %d bytes, want %d", resp.ContentLength, ref.Size)
	}
	if resp.StatusCode == http.StatusOK {
		return nil // the whole blob is the block
	}
	want := fmt.Sprintf("bytes %d-%d/", ref.Offset, ref.Offset+int64(ref.Size)-1)
	if got := resp.Header.Get("Content-Range"); !strings.HasPrefix(got, want) {
		return bad("Content-Range is %q, want %q", got, want)
	}
	return nil
}

// checkTotal refuses a range of a blob that is too short to have the block: no
// other try will change that.
func checkTotal(resp *http.Response, ref block.Ref) error {
	_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
	if n, err := strconv.ParseInt(total, 10, 64); err == nil {
		return checkSize(resp, n, ref)
	}
	return nil // "*": not known
}

// checkWhole refuses a whole blob that cannot have the block.
func checkWhole(resp *http.Response, ref block.Ref) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("%s: answer is encoded as %q: %w", redacted(resp.Request.URL), enc, errdefs.ErrUnavailable)
	}
	return checkSize(resp, resp.ContentLength, ref)
}

func checkSize(resp *http.Response, size int64, ref block.Ref) error {
	if end := ref.Offset + int64(ref.Size); size >= 0 && size < end {
		return final{fmt.Errorf("%s: the blob has %d bytes, the block ends at %d: %w", redacted(resp.Request.URL), size, end, errdefs.ErrDataLoss)}
	}
	return nil
}

// receive fills a.p from the body of a checked answer, after so many bytes of
// it that are not wanted.
func (a *attempt) receive(q *request, resp *http.Response, skip int64) error {
	limit := a.r.c.opts.Idle
	idle := time.AfterFunc(limit, func() { q.cancel(errIdle) })
	defer idle.Stop()
	body := readerFunc(func(p []byte) (int, error) {
		n, err := resp.Body.Read(p)
		a.r.c.metrics.bytes.Add(float64(n))
		idle.Reset(limit)
		return n, err
	})
	skipped, err := io.CopyN(io.Discard, body, skip)
	got := 0
	if err == nil {
		got, err = a.fill(body)
	}
	switch {
	case err == nil && resp.StatusCode == http.StatusOK && resp.ContentLength != int64(len(a.p)):
		return nil // the rest of the blob is not wanted: the connection goes
	case err == nil:
		// Up to the end, so that the connection can be used again.
		if n, _ := io.ReadFull(body, make([]byte, 1)); n != 0 {
			return fmt.Errorf("%s: body goes on after the range: %w", redacted(resp.Request.URL), errdefs.ErrUnavailable)
		}
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: body ended after %d of %d bytes: %w", redacted(resp.Request.URL), skipped+int64(got), skip+int64(len(a.p)), errdefs.ErrUnavailable)
	}
	return fmt.Errorf("%s: after %d of %d bytes: %w", redacted(resp.Request.URL), skipped+int64(got), skip+int64(len(a.p)), transportError(q.ctx, err))
}

// fill is io.ReadFull into a.p.
func (a *attempt) fill(body io.Reader) (n int, err error) {
	if a.grow == nil {
		return io.ReadFull(body, a.p)
	}
	for n < len(a.p) && err == nil {
		var m int
		m, err = body.Read(a.p[n:])
		if n += m; m > 0 {
			a.grow(n)
		}
	}
	switch {
	case n == len(a.p):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
