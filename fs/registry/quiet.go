package registry

import (
	"context"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// quiet keeps debug lines out of the log of what is called with its context:
// containerd's resolver quotes headers of requests and answers in them.
func quiet(ctx context.Context) context.Context { return atMost(ctx, log.InfoLevel) }

// atMost lowers the level of the context's logger.
func atMost(ctx context.Context, level log.Level) context.Context {
	e := log.G(ctx)
	if e.Logger.GetLevel() <= level {
		return ctx
	}
	l := like(e.Logger)
	l.Out, l.Hooks, l.Formatter = e.Logger.Out, e.Logger.Hooks, e.Logger.Formatter
	l.ReportCaller, l.ExitFunc, l.Level = e.Logger.ReportCaller, e.Logger.ExitFunc, level
	return log.WithLogger(ctx, l.WithFields(e.Data))
}

// like returns a new zero value of a type that cannot be named here.
func like[T any](*T) *T { return new(T) }

type quietResolver struct{ remotes.ResolverWithOptions }

// fetchesAll is what containerd's fetcher can do; callers find it by assertion.
type fetchesAll interface {
	remotes.Fetcher
	remotes.FetcherByDigest
	remotes.ReferrersFetcher
}

// pushesAll is what its pusher can do.
type pushesAll interface {
	remotes.Pusher
	content.Ingester
}

// Resolve implements remotes.Resolver.
func (r quietResolver) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	return r.ResolverWithOptions.Resolve(quiet(ctx), ref)
}

// Fetcher implements remotes.Resolver.
func (r quietResolver) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	f, err := r.ResolverWithOptions.Fetcher(quiet(ctx), ref)
	if all, ok := f.(fetchesAll); ok {
		return quietFetcher{all}, nil
	}
	return f, err
}

// Pusher implements remotes.Resolver.
func (r quietResolver) Pusher(ctx context.Context, ref string) (remotes.Pusher, error) {
	p, err := r.ResolverWithOptions.Pusher(quiet(ctx), ref)
	if all, ok := p.(pushesAll); ok {
		return quietPusher{all}, nil
	}
	return p, err
}

type quietFetcher struct{ fetchesAll }

// Fetch implements remotes.Fetcher.
func (f quietFetcher) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return f.fetchesAll.Fetch(quiet(ctx), d)
}

// FetchByDigest implements remotes.FetcherByDigest.
func (f quietFetcher) FetchByDigest(ctx context.Context, d digest.Digest, o ...remotes.FetchByDigestOpts) (io.ReadCloser, ocispec.Descriptor, error) {
	return f.fetchesAll.FetchByDigest(quiet(ctx), d, o...)
}

// FetchReferrers implements remotes.ReferrersFetcher.
func (f quietFetcher) FetchReferrers(ctx context.Context, d digest.Digest, o ...remotes.FetchReferrersOpt) ([]ocispec.Descriptor, error) {
	return f.fetchesAll.FetchReferrers(quiet(ctx), d, o...)
}

type quietPusher struct{ pushesAll }

// Push implements remotes.Pusher.
func (p quietPusher) Push(ctx context.Context, d ocispec.Descriptor) (content.Writer, error) {
	return p.pushesAll.Push(quiet(ctx), d)
}

// Writer implements content.Ingester.
func (p quietPusher) Writer(ctx context.Context, o ...content.WriterOpt) (content.Writer, error) {
	return p.pushesAll.Writer(quiet(ctx), o...)
}
