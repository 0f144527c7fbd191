package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/auth"
	"github.com/containerd/errdefs"
)

// tokens is what is known of authentication, by the host:port of requests. It
// is shared by all endpoints and repositories of a Client.
type tokens struct {
	c *Client

	mu    sync.Mutex // guards hosts
	hosts map[string]*hostAuth
}

func newTokens(c *Client) *tokens { return &tokens{c: c, hosts: map[string]*hostAuth{}} }

func (t *tokens) host(host string, add bool) *hostAuth {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[host]
	if h == nil && add {
		h = &hostAuth{scopes: map[string]*token{}}
		t.hosts[host] = h
	}
	return h
}

// hostAuth is how one host wants to be authenticated.
type hostAuth struct {
	mu     sync.Mutex                // guards all below; not held over a request
	scheme auth.AuthenticationScheme // 0: never asked
	realm  realm
	scopes map[string]*token // by the scopes that the caller asks for
}

// maxScopes bounds the tokens that are kept for a host.
const maxScopes = 1024

// token returns the token of the scopes in ctx. h.mu is held.
func (h *hostAuth) token(key string) *token {
	k := h.scopes[key]
	if k == nil {
		if len(h.scopes) >= maxScopes {
			clear(h.scopes)
		}
		k = &token{}
		h.scopes[key] = k
	}
	return k
}

// authorizer is containerd's docker.Authorizer over the tokens of a Client. It
// refreshes a token before it ends, reads credentials again each time it needs
// them, and takes a lifetime of a minute where a server says none: containerd's
// own does none of these.
type authorizer struct {
	tokens   *tokens
	endpoint *endpoint // whose transport and headers reach the token server
}

func scopeKey(ctx context.Context) string {
	return strings.Join(docker.GetTokenScopes(ctx, nil), " ")
}

// Authorize sets the header of a request to a host that has asked for it
// before.
func (a *authorizer) Authorize(ctx context.Context, req *http.Request) error {
	h := a.tokens.host(req.URL.Host, false)
	if h == nil {
		return nil
	}
	h.mu.Lock()
	scheme, where, k := h.scheme, h.realm, h.token(scopeKey(ctx))
	h.mu.Unlock()
	switch scheme {
	case auth.BearerAuth:
		v, err := k.get(ctx, a, req.URL.Host, where, docker.GetTokenScopes(ctx, nil))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+v)
	case auth.BasicAuth:
		if v := k.password(); v != "" {
			req.Header.Set("Authorization", v)
		}
	}
	return nil
}

// repositoryOf returns the repository that scopes are about; "" when they name
// none.
func repositoryOf(scopes []string) string {
	for _, s := range scopes {
		if f := strings.Split(s, ":"); len(f) == 3 && f[0] == "repository" {
			return f[1]
		}
	}
	return ""
}

// maxChallenges bounds the answers 401 to one request.
const maxChallenges = 3

// AddResponses learns from a 401. Nil means that the request is worth another
// try: it carried nothing, or what it carried is not what would be sent now.
func (a *authorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	last := responses[len(responses)-1]
	host := last.Request.URL.Host
	sent := last.Request.Header.Get("Authorization")
	h := a.tokens.host(host, true)
	for _, c := range auth.ParseAuthHeader(last.Header) {
		switch c.Scheme {
		case auth.BearerAuth:
			n := 0
			for _, r := range responses {
				if r.StatusCode == http.StatusUnauthorized {
					n++
				}
			}
			if n > maxChallenges {
				return rejected(host)
			}
			return h.challenged(ctx, c, sent, n, host)
		case auth.BasicAuth:
			return a.basic(ctx, h, host, sent)
		}
	}
	return fmt.Errorf("%s asks for an unknown kind of authentication: %w: %w", host, errdefs.ErrUnauthenticated, errdefs.ErrNotImplemented)
}

func rejected(host string) error {
	return fmt.Errorf("%s rejects the credentials: %w: %w", host, docker.ErrInvalidAuthorization, errdefs.ErrUnauthenticated)
}

// challenged takes over what a bearer challenge says.
func (h *hostAuth) challenged(ctx context.Context, c auth.Challenge, sent string, n int, host string) error {
	r, err := parseRealm(c)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", host, err, errdefs.ErrUnauthenticated)
	}
	h.mu.Lock()
	h.scheme, h.realm = auth.BearerAuth, r
	k := h.token(scopeKey(ctx))
	h.mu.Unlock()
	wider := k.widen(strings.Fields(c.Parameters["scope"]))
	value, isBearer := strings.CutPrefix(sent, "Bearer ")
	stale := k.drop(value) // false: another request has dropped it before
	switch {
	case !isBearer, wider, !stale:
		return nil
	case n == 1:
		return nil // a token from before this request, ended or revoked early
	}
	return rejected(host)
}

// basic reads the credentials again; they are worth a try when they differ from
// what was sent.
func (a *authorizer) basic(ctx context.Context, h *hostAuth, host, sent string) error {
	cred, err := a.tokens.c.creds.get(ctx, host, repositoryOf(docker.GetTokenScopes(ctx, nil)))
	if err != nil {
		return err
	}
	if cred.Username == "" && cred.Password == "" {
		return fmt.Errorf("no credentials for %s: %w: %w", host, docker.ErrInvalidAuthorization, errdefs.ErrUnauthenticated)
	}
	v := "Basic " + base64.StdEncoding.EncodeToString([]byte(cred.Username+":"+cred.Password))
	h.mu.Lock()
	h.scheme = auth.BasicAuth
	h.token(scopeKey(ctx)).tell(v)
	h.mu.Unlock()
	if v == sent {
		return rejected(host)
	}
	return nil
}
