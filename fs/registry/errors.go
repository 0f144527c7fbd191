package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// errIdle ends an attempt whose body does not go on.
var errIdle = fmt.Errorf("no data for too long: %w", errdefs.ErrUnavailable)

// final marks an error after which the same host is not asked again for this
// block in this call.
type final struct{ error }

// Unwrap shows what it is.
func (f final) Unwrap() error { return f.error }

func isFinal(err error) bool {
	_, ok := errors.AsType[final](err)
	return ok
}

// statusError says what an answer means. It reads no body: error documents of
// object stores quote signed requests.
func statusError(resp *http.Response, what string) error {
	err := fmt.Errorf("%s: %d %s", what, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch s := resp.StatusCode; {
	case s == http.StatusNotFound, s == http.StatusGone:
		return final{fmt.Errorf("%w: %w", err, errdefs.ErrNotFound)}
	case s == http.StatusUnauthorized:
		return final{fmt.Errorf("%w: %w", err, errdefs.ErrUnauthenticated)}
	case s == http.StatusForbidden, s == http.StatusUnavailableForLegalReasons:
		return final{fmt.Errorf("%w: %w", err, errdefs.ErrPermissionDenied)}
	case s == http.StatusRequestedRangeNotSatisfiable:
		return final{fmt.Errorf("%w: the blob is shorter than the block needs: %w", err, errdefs.ErrDataLoss)}
	case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests, s >= 500:
		return fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
	}
	return final{fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)}
}

// transportError makes an error of a transport one of ours, with the reason why
// ctx ended.
func transportError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return cause
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("connection closed without an answer")
	}
	if isErrdefs(err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
}

func isErrdefs(err error) bool {
	return errdefs.IsUnavailable(err) || errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errdefs.IsNotFound(err)
}

// redacted names a URL without its query and credentials.
func redacted(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// join makes one error of those of all hosts. It matches the kind that is most
// worth knowing: that another try may help, else what can be repaired, else
// that the blob does not exist.
func join(errs []error) error {
	kinds := []error{errdefs.ErrUnavailable, errdefs.ErrDataLoss, errdefs.ErrUnauthenticated, errdefs.ErrPermissionDenied, errdefs.ErrNotFound}
	kind := kinds[0]
	if i := slices.IndexFunc(kinds, func(k error) bool {
		return slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, k) })
	}); i >= 0 {
		kind = kinds[i]
	}
	if len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return fmt.Errorf("%s: %w", strings.Join(texts, "; "), kind)
}
