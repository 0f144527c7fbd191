package registry

import (
	"context"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
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
	l := &logrus.Logger{
		Out: e.Logger.Out, Hooks: e.Logger.Hooks, Formatter: e.Logger.Formatter,
		ReportCaller: e.Logger.ReportCaller, ExitFunc: e.Logger.ExitFunc, Level: level,
	}
	return log.WithLogger(ctx, l.WithFields(e.Data))
}

type quietResolver struct{ remotes.ResolverWithOptions }

// all is what containerd's fetcher can do; callers find it by assertion.
type fetchesAll interface {
	remotes.Fetcher
	remotes.FetcherByDigest
	remotes.ReferrersFetcher
}

type pushesAll interface {
	remotes.Pusher
	content.Ingester
}

func (r quietResolver) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	return r.ResolverWithOptions.Resolve(quiet(ctx), ref)
}

func (r quietResolver) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	f, err := r.ResolverWithOptions.Fetcher(quiet(ctx), ref)
	if all, ok := f.(fetchesAll); ok {
		return quietFetcher{all}, nil
	}
	return f, err
}

func (r quietResolver) Pusher(ctx context.Context, ref string) (remotes.Pusher, error) {
	p, err := r.ResolverWithOptions.Pusher(quiet(ctx), ref)
	if all, ok := p.(pushesAll); ok {
		return quietPusher{all}, nil
	}
	return p, err
}

type quietFetcher struct{ fetchesAll }

func (f quietFetcher) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return f.fetchesAll.Fetch(quiet(ctx), d)
}

func (f quietFetcher) FetchByDigest(ctx context.Context, d digest.Digest, o ...remotes.FetchByDigestOpts) (io.ReadCloser, ocispec.Descriptor, error) {
	return f.fetchesAll.FetchByDigest(quiet(ctx), d, o...)
}

func (f quietFetcher) FetchReferrers(ctx context.Context, d digest.Digest, o ...remotes.FetchReferrersOpt) ([]ocispec.Descriptor, error) {
	return f.fetchesAll.FetchReferrers(quiet(ctx), d, o...)
}

type quietPusher struct{ pushesAll }

func (p quietPusher) Push(ctx context.Context, d ocispec.Descriptor) (content.Writer, error) {
	return p.pushesAll.Push(quiet(ctx), d)
}

func (p quietPusher) Writer(ctx context.Context, o ...content.WriterOpt) (content.Writer, error) {
	return p.pushesAll.Writer(quiet(ctx), o...)
}
