package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// serveToken is the token endpoint: GET with basic credentials or none, POST
// as OAuth 2 with a password or a refresh token.
func (a *Auth) serveToken(w http.ResponseWriter, req *http.Request) {
	user, scopes, ok := a.identify(req)
	if !ok {
		fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "wrong credentials")
		return
	}
	g := &grant{until: time.Now().Add(a.TTL), scope: map[string][]string{}}
	for _, s := range scopes {
		f := strings.Split(s, ":")
		if len(f) != 3 || f[0] != "repository" {
			continue
		}
		for action := range strings.SplitSeq(f[2], ",") {
			if (user != "" || action == "pull") && a.may(user, f[1], action) {
				g.scope[f[1]] = append(g.scope[f[1]], action)
			}
		}
	}
	answer := map[string]any{}
	if !a.NoExpiry {
		answer["expires_in"] = int(a.TTL / time.Second)
	}
	a.mu.Lock()
	token := fmt.Sprintf("%stoken-%d", a.Prefix, len(a.asked)+1)
	a.tokens[token] = g
	a.asked = append(a.asked, TokenRequest{Time: time.Now(), User: user, Scope: scopes})
	a.mu.Unlock()
	for _, f := range a.Fields {
		answer[f] = token
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// identify tells who asks for a token, and for what.
func (a *Auth) identify(req *http.Request) (user string, scopes []string, ok bool) {
	if req.Method != http.MethodPost {
		for _, s := range req.URL.Query()["scope"] {
			scopes = append(scopes, strings.Fields(s)...)
		}
		if req.Header.Get("Authorization") == "" {
			return "", scopes, a.Anonymous
		}
		user, ok = a.user(req)
		return user, scopes, ok
	}
	if req.ParseForm() != nil {
		return "", nil, false
	}
	scopes = strings.Fields(req.PostForm.Get("scope"))
	switch req.PostForm.Get("grant_type") {
	case "password":
		user = req.PostForm.Get("username")
		return user, scopes, a.good(user, req.PostForm.Get("password"))
	case "refresh_token":
		user, ok = a.Identities[req.PostForm.Get("refresh_token")]
		return user, scopes, ok
	}
	return "", nil, false
}

// Scopes returns how many tokens were granted for each scope.
func (a *Auth) Scopes() map[string]int {
	m := map[string]int{}
	for _, t := range a.Granted() {
		s := slices.Sorted(slices.Values(t.Scope))
		m[strings.Join(s, " ")]++
	}
	return m
}
