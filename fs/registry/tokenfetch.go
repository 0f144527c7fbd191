package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/auth"
	"github.com/containerd/errdefs"
)

// realm is a token server, as a challenge names it.
type realm struct {
	url     string
	service string
}

func parseRealm(c auth.Challenge) (realm, error) {
	u, err := url.Parse(c.Parameters["realm"])
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return realm{}, errors.New("challenge without a usable realm")
	}
	return realm{url: u.String(), service: c.Parameters["service"]}, nil
}

// maxTokenAnswer bounds the answer of a token server, in bytes. Tokens with
// many groups reach some 10 KiB.
const maxTokenAnswer = 1 << 20

// fetch asks a token server once.
func (a *authorizer) fetch(ctx context.Context, host string, r realm, scopes []string) (string, time.Duration, error) {
	cred, err := a.tokens.c.creds.get(ctx, host, repositoryOf(scopes))
	if err != nil {
		return "", 0, err
	}
	if cred.RegistryToken != "" {
		return cred.RegistryToken, defaultLifetime, nil
	}
	req, err := tokenRequest(ctx, r, cred, scopes)
	if err != nil {
		return "", 0, err
	}
	if err := a.mayTell(req.URL, cred); err != nil {
		return "", 0, err
	}
	if req.URL.Host == a.endpoint.Host {
		for k, v := range a.endpoint.Header {
			if k != "Authorization" {
				req.Header[k] = v
			}
		}
	}
	resp, err := redirecting{a.endpoint}.RoundTrip(req)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", req.URL.Host, transportError(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, statusError(resp, req.URL.Host)
	}
	return parseToken(io.LimitReader(resp.Body, maxTokenAnswer))
}

// mayTell refuses to send a secret over http on behalf of a registry that is
// spoken to over https.
func (a *authorizer) mayTell(u *url.URL, cred Credential) error {
	if u.Scheme == "https" || cred == (Credential{}) || a.endpoint.plain() {
		return nil
	}
	return fmt.Errorf("the token server %s is plain http: %w", u.Host, errdefs.ErrPermissionDenied)
}

// tokenRequest is a GET with basic credentials, which every server knows, or
// for an identity token a POST as OAuth 2.
func tokenRequest(ctx context.Context, r realm, cred Credential, scopes []string) (*http.Request, error) {
	if cred.IdentityToken != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {cred.IdentityToken},
			"service": {r.service}, "client_id": {"faasnet"}, "scope": {strings.Join(scopes, " ")},
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, errors.New("unusable realm")
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return req, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, errors.New("unusable realm")
	}
	q := req.URL.Query()
	if r.service != "" {
		q.Set("service", r.service)
	}
	q["scope"] = scopes
	maps.DeleteFunc(q, func(_ string, v []string) bool { return len(v) == 0 })
	req.URL.RawQuery = q.Encode()
	if cred.Username != "" || cred.Password != "" {
		req.SetBasicAuth(cred.Username, cred.Password)
	}
	return req, nil
}

func parseToken(r io.Reader) (string, time.Duration, error) {
	var t struct {
		Token       string      `json:"token"`
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	if json.NewDecoder(r).Decode(&t) != nil {
		return "", 0, fmt.Errorf("answer of the token server is not valid JSON: %w", errdefs.ErrUnavailable)
	}
	if t.Token == "" {
		t.Token = t.AccessToken
	}
	if t.Token == "" {
		return "", 0, fmt.Errorf("answer of the token server has no token: %w", errdefs.ErrUnavailable)
	}
	life := defaultLifetime
	if s, err := t.ExpiresIn.Float64(); err == nil && s >= 1 {
		life = time.Duration(min(s, maxLifetime.Seconds()) * float64(time.Second))
	}
	return t.Token, life, nil
}

// maxLifetime is the longest that a token is believed to last.
const maxLifetime = 24 * time.Hour
