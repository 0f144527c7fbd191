package registrytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const tokenPath = "/token"

// Auth says who may do what. Its methods may be called while the registry
// runs; its fields may not be changed after that.
type Auth struct {
	Basic     bool              // basic authentication instead of tokens
	Users     map[string]string // user to password
	Anonymous bool              // tokens to pull are given without credentials

	// May restricts what a user may do; nil: everything. "" is anonymous.
	May func(user, repository, action string) bool

	TTL        time.Duration     // lifetime of a token; default 1 min
	Fields     []string          // of the answer that carry the token; default "token"
	NoExpiry   bool              // the answer has no expires_in
	NoScope    bool              // the challenge has no scope
	Realm      string            // instead of the registry's own /token
	Prefix     string            // of every token: a marker to look for
	Identities map[string]string // identity (refresh) token to user

	host string

	mu     sync.Mutex // guards Users and all below
	tokens map[string]*grant
	asked  []TokenRequest
}

// TokenRequest is one request for a token that was granted.
type TokenRequest struct {
	Time  time.Time
	User  string
	Scope []string
}

type grant struct {
	until time.Time
	scope map[string][]string // repository to actions
}

func (a *Auth) start(host string) {
	a.host = host
	a.tokens = map[string]*grant{}
	if a.TTL == 0 {
		a.TTL = time.Minute
	}
	if len(a.Fields) == 0 {
		a.Fields = []string{"token"}
	}
}

// SetUser adds a user or changes a password; an empty one removes the user.
// Tokens already given stay good.
func (a *Auth) SetUser(user, password string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Users == nil {
		a.Users = map[string]string{}
	}
	a.Users[user] = password
	if password == "" {
		delete(a.Users, user)
	}
}

// Revoke makes all tokens given so far worthless before their time.
func (a *Auth) Revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.tokens)
}

// Granted returns the tokens given so far.
func (a *Auth) Granted() []TokenRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// allow answers 401 or 403 and returns false where the request may not do
// action to the repository. A nil Auth allows everything.
func (a *Auth) allow(w http.ResponseWriter, req *http.Request, name, action string) bool {
	if a.can(req, name, action) {
		return true
	}
	if a.Basic {
		if _, ok := a.user(req); ok {
			fail(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registrytest"`)
	} else {
		w.Header().Set("WWW-Authenticate", a.challenge(req, name, action))
	}
	fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	return false
}

func (a *Auth) challenge(req *http.Request, name, action string) string {
	realm := a.Realm
	if realm == "" {
		realm = "http://" + a.host + tokenPath
		if req.TLS != nil {
			realm = "https://" + a.host + tokenPath
		}
	}
	c := fmt.Sprintf(`Bearer realm="%s",service="registrytest"`, realm)
	if name != "" && !a.NoScope {
		if action == "push" {
			action = "pull,push"
		}
		c += fmt.Sprintf(`,scope="repository:%s:%s"`, name, action)
	}
	if req.Header.Get("Authorization") != "" {
		c += `,error="invalid_token"`
	}
	return c
}

// can reports whether the request carries what it needs.
func (a *Auth) can(req *http.Request, name, action string) bool {
	if a == nil {
		return true
	}
	if a.Basic {
		user, ok := a.user(req)
		return ok && a.may(user, name, action)
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.tokens[token]
	return g != nil && time.Now().Before(g.until) && (name == "" || slices.Contains(g.scope[name], action))
}

func (a *Auth) may(user, name, action string) bool {
	return name == "" || a.May == nil || a.May(user, name, action)
}

// user checks the basic credentials of a request.
func (a *Auth) user(req *http.Request) (string, bool) {
	user, password, ok := req.BasicAuth()
	return user, ok && a.good(user, password)
}

func (a *Auth) good(user, password string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	want, ok := a.Users[user]
	return ok && want == password
}
