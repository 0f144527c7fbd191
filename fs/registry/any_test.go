package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

func TestRA07_SharedLayer(t *testing.T) {
	for name, revoke := range map[string]func(*registrytest.Auth, *registrytest.Registry){
		"credentials of A revoked": func(a *registrytest.Auth, _ *registrytest.Registry) { a.SetUser("a", ""); a.Revoke() },
		"repository A deleted":     func(_ *registrytest.Auth, r *registrytest.Registry) { r.DeleteRepo("team-a/img") },
	} {
		t.Run(name, func(t *testing.T) {
			auth := &registrytest.Auth{
				Users: map[string]string{"a": "1", "b": "2"},
				May: func(user, repository, _ string) bool {
					return repository == map[string]string{"a": "team-a/img", "b": "team-b/img"}[user]
				},
			}
			inBubble(t, registrytest.Options{Auth: auth}, Options{
				Credentials: func(_ context.Context, _, repository string) (Credential, error) {
					if repository == "team-a/img" {
						return Credential{Username: "a", Password: "1"}, nil
					}
					return Credential{Username: "b", Password: "2"}, nil
				},
			}, func(b *bubble) {
				t := b.t
				l := addLayer(t, b.reg, "team-a/img", 1<<16)
				addLayer(t, b.reg, "team-b/img", 1<<16)
				viaA, viaB := blobs(t, b.c, host+"/team-a/img:1"), blobs(t, b.c, host+"/team-b/img:1")
				both := Any(viaA, viaB)
				l.read(t.Context(), t, both, 0, 100)
				revoke(auth, b.reg)
				b.reg.Forget()
				l.read(t.Context(), t, both, 100, 100)
				var sawB bool
				for _, q := range b.reg.Requests() {
					sawB = sawB || q.Is(registrytest.Blobs) && q.Path == "/v2/team-b/img/blobs/"+l.digest.String() && q.Status == 206
				}
				if !sawB {
					t.Error("no block was read from B")
				}
				// B gave the last block: A is not asked any more.
				b.reg.Forget()
				l.read(t.Context(), t, both, 200, 100)
				if n := len(b.reg.Requests()); n != 1 {
					t.Errorf("%d requests for the next block, want 1", n)
				}
				// Image A is removed: what is left serves.
				l.read(t.Context(), t, Any(viaB), 300, 100)
			})
		})
	}
}

func TestAny(t *testing.T) {
	ref := block.Ref{Size: 1}
	good := block.SourceFunc(func(_ context.Context, _ block.Ref, dst []byte) ([]byte, error) { return append(dst, 'x'), nil })
	failing := func(err error) block.Source {
		return block.SourceFunc(func(_ context.Context, _ block.Ref, dst []byte) ([]byte, error) { return dst, err })
	}
	hanging := block.SourceFunc(func(ctx context.Context, _ block.Ref, dst []byte) ([]byte, error) {
		<-ctx.Done()
		return dst, ctx.Err()
	})
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			sources []block.Source
			want    error
			within  time.Duration
		}{
			"none":             {nil, errdefs.ErrNotFound, 0},
			"one":              {[]block.Source{good}, nil, 0},
			"gone, good":       {[]block.Source{failing(errdefs.ErrNotFound), good}, nil, 0},
			"hanging, good":    {[]block.Source{hanging, good}, nil, share},
			"gone, denied":     {[]block.Source{failing(errdefs.ErrNotFound), failing(errdefs.ErrPermissionDenied)}, errdefs.ErrPermissionDenied, 0},
			"down, gone":       {[]block.Source{failing(errdefs.ErrUnavailable), failing(errdefs.ErrNotFound)}, errdefs.ErrUnavailable, 0},
			"hanging, gone":    {[]block.Source{hanging, failing(errdefs.ErrNotFound)}, errdefs.ErrUnavailable, share},
			"none of many has": {[]block.Source{failing(errdefs.ErrNotFound), failing(errdefs.ErrNotFound)}, errdefs.ErrNotFound, 0},
		} {
			begin := time.Now()
			p, err := Any(c.sources...).ReadBlock(t.Context(), ref, []byte("a"))
			if d := time.Since(begin); d > c.within {
				t.Errorf("%s: took %v", name, d)
			}
			if c.want == nil && (err != nil || string(p) != "ax") || c.want != nil && (!errors.Is(err, c.want) || string(p) != "a") {
				t.Errorf("%s: %q, %v", name, p, err)
			}
		}

		// What has failed is asked last for a while, and after that not before what
		// works.
		asked := 0
		gone := block.SourceFunc(func(_ context.Context, _ block.Ref, dst []byte) ([]byte, error) {
			asked++
			return dst, errdefs.ErrNotFound
		})
		s := Any(gone, good)
		for range 5 {
			if _, err := s.ReadBlock(t.Context(), ref, nil); err != nil {
				t.Error(err)
			}
			time.Sleep(forgive)
		}
		if asked != 1 {
			t.Errorf("the source that failed was asked %d times, want 1", asked)
		}

		// The caller's deadline is shared among the sources.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := Any(hanging, hanging, good).ReadBlock(ctx, ref, nil); err != nil || time.Since(begin) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
