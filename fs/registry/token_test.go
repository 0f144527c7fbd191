package registry

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

var users = map[string]string{"u": "p"}

func TestRA03_TokenExpires(t *testing.T) {
	auth := &registrytest.Auth{Users: users, TTL: 3 * time.Second}
	inBubble(t, registrytest.Options{Auth: auth}, Options{Credentials: static("u", "p")}, func(b *bubble) {
		t := b.t
		l := addLayer(t, b.reg, "a/b", 1<<20)
		s := blobs(t, b.c, host+"/a/b")
		l.read(t.Context(), t, s, 0, 1000)
		time.Sleep(10 * time.Second)
		b.reg.Forget()
		l.read(t.Context(), t, s, 1000, 1000)
		burst(t, s, l, 20)
		if n := b.reg.Count(registrytest.Token); n > 2 {
			t.Errorf("%d token requests for the burst, want 2 at most", n)
		}
		for _, q := range b.reg.Requests() {
			if q.Status == http.StatusUnauthorized {
				t.Error("a token that had ended was sent")
			}
		}
	})
}

// TestRA03_TokenRevoked: the server does not honour the lifetime that it gave.
func TestRA03_TokenRevoked(t *testing.T) {
	auth := &registrytest.Auth{Users: users, TTL: time.Hour}
	inBubble(t, registrytest.Options{Auth: auth}, Options{Credentials: static("u", "p")}, func(b *bubble) {
		t := b.t
		l := addLayer(t, b.reg, "a/b", 1<<20)
		s := blobs(t, b.c, host+"/a/b")
		l.read(t.Context(), t, s, 0, 1000)
		auth.Revoke()
		b.reg.Forget()
		burst(t, s, l, 20)
		if n := b.reg.Count(registrytest.Token); n > 2 {
			t.Errorf("%d token requests for the burst, want 2 at most", n)
		}
	})
}

func TestTokenIsDroppedOnce(t *testing.T) {
	k := &token{value: "new"}
	if k.drop("old") || k.value != "new" {
		t.Error("a 401 to an old token drops the new one")
	}
	if !k.drop("new") || k.drop("new") || k.value != "" {
		t.Error("a token that is refused stays")
	}
}

func burst(t *testing.T, s reader, l layer, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { l.read(t.Context(), t, s, i*1000, 1000) })
	}
	wg.Wait()
}

func TestRA04_RefreshRate(t *testing.T) {
	const mounts, life = 50, time.Minute
	auth := &registrytest.Auth{Users: users, TTL: life}
	inBubble(t, registrytest.Options{Auth: auth}, Options{Credentials: static("u", "p")}, func(b *bubble) {
		t := b.t
		var l layer
		var sources []reader
		for i := range mounts {
			l = addLayer(t, b.reg, fmt.Sprintf("fn/%d", i/2), 1<<16) // two mounts a repository
			sources = append(sources, blobs(t, b.c, fmt.Sprintf("%s/fn/%d:%d", host, i/2, i)))
		}
		steady := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
				for _, s := range sources {
					l.read(t.Context(), t, s, 0, 100)
				}
			}
		}
		steady(3 * time.Minute)
		times := map[string][]time.Time{}
		for _, g := range auth.Granted() {
			k := fmt.Sprint(g.Scope)
			times[k] = append(times[k], g.Time)
		}
		if len(times) != mounts/2 {
			t.Errorf("%d scopes, want %d", len(times), mounts/2)
		}
		var first, last time.Time // of the second refresh, over all scopes
		for k, at := range times {
			for i := 1; i < len(at); i++ {
				if gap := at[i].Sub(at[i-1]); gap < 49*time.Second || gap > life {
					t.Errorf("%s: refreshed after %v", k, gap)
				}
			}
			if len(at) != 4 {
				t.Errorf("%s: %d tokens in 3 min, want 4", k, len(at))
				continue
			}
			if first.IsZero() || at[2].Before(first) {
				first = at[2]
			}
			if at[2].After(last) {
				last = at[2]
			}
		}
		if last.Sub(first) < 5*time.Second {
			t.Errorf("refreshes of %d scopes lie within %v", len(times), last.Sub(first))
		}
	})
}

func TestRA04_TokenServerFails(t *testing.T) {
	auth := &registrytest.Auth{Users: users, TTL: time.Minute}
	inBubble(t, registrytest.Options{Auth: auth}, Options{Credentials: static("u", "p")}, func(b *bubble) {
		t := b.t
		l := addLayer(t, b.reg, "a/b", 1<<16)
		s := blobs(t, b.c, host+"/a/b")
		l.read(t.Context(), t, s, 0, 100)
		time.Sleep(27 * time.Second)
		b.reg.Forget()
		undo := b.reg.Every(registrytest.Of(registrytest.Token), registrytest.Fault{Status: 503})
		for range 30 { // 27 s to 57 s: the old token ends at 57 s
			l.read(t.Context(), t, s, 0, 100)
			time.Sleep(time.Second - time.Millisecond)
		}
		if n := b.reg.Count(registrytest.Token); n == 0 || n > 10 {
			t.Errorf("%d token requests in the 30 s that the server failed, want 1 to 10", n)
		}
		// Without a token a read waits for the server, within its budget.
		time.Sleep(10 * time.Second)
		b.reg.Forget()
		time.AfterFunc(20*time.Second, undo)
		begin := time.Now()
		l.read(t.Context(), t, s, 0, 100)
		if d := time.Since(begin); d < 20*time.Second || d > 31*time.Second {
			t.Errorf("read after %v, the server came back after 20 s", d)
		}
		if n := b.reg.Count(registrytest.Token); n > 10 {
			t.Errorf("%d token requests in %v", n, time.Since(begin))
		}
	})
}

func TestRA05_Variants(t *testing.T) {
	for name, a := range map[string]*registrytest.Auth{
		"access_token only":       {Fields: []string{"access_token"}},
		"both":                    {Fields: []string{"token", "access_token"}},
		"no expires_in":           {NoExpiry: true},
		"challenge without scope": {NoScope: true},
		"anonymous":               {Anonymous: true},
		"refresh token":           {Identities: map[string]string{"idtoken": "u"}},
	} {
		t.Run(name, func(t *testing.T) {
			cred := Credential{Username: "u", Password: "p"}
			a.Users = users
			switch {
			case a.Anonymous:
				cred = Credential{}
			case a.Identities != nil:
				cred = Credential{IdentityToken: "idtoken"}
			}
			inBubble(t, registrytest.Options{Auth: a}, Options{Credentials: byHost{host: cred}.get}, func(b *bubble) {
				t := b.t
				l := addLayer(t, b.reg, "a/b", 1<<16)
				s := blobs(t, b.c, host+"/a/b")
				l.read(t.Context(), t, s, 0, 100)
				// One minute is assumed, or said: no sooner, no later.
				time.Sleep(49 * time.Second)
				l.read(t.Context(), t, s, 0, 100)
				if n := b.reg.Count(registrytest.Token); n != 1 {
					t.Errorf("%d token requests after 49 s, want 1", n)
				}
				time.Sleep(9 * time.Second)
				l.read(t.Context(), t, s, 0, 100)
				if n := b.reg.Count(registrytest.Token); n != 2 {
					t.Errorf("%d token requests after 58 s, want 2", n)
				}
			})
		})
	}
}

func TestWrongCredentials(t *testing.T) {
	for name, a := range map[string]*registrytest.Auth{
		"token": {Users: users},
		"basic": {Users: users, Basic: true},
		"denied": {Users: map[string]string{"u": "wrong"}, May: func(string, string, string) bool {
			return false
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, registrytest.Options{Auth: a}, Options{Credentials: static("u", "wrong")}, func(b *bubble) {
				t := b.t
				l := addLayer(t, b.reg, "a/b", 1<<16)
				s := blobs(t, b.c, host+"/a/b")
				begin := time.Now()
				_, err := s.ReadBlock(t.Context(), l.ref(0, 100), nil)
				if !errdefs.IsUnauthorized(err) {
					t.Errorf("got %v", err)
				}
				if n := len(b.reg.Requests()); n > 4 || time.Since(begin) > time.Second {
					t.Errorf("%d requests in %v", n, time.Since(begin))
				}
			})
		})
	}
}

// TestPrefixMirrorScope: where a mirror knows the repository by another name,
// the scope of its challenge counts, not the one that the name suggests.
func TestScopeOfTheChallengeCounts(t *testing.T) {
	auth := &registrytest.Auth{Users: users}
	inBubble(t, registrytest.Options{Auth: auth}, Options{
		Credentials: static("u", "p"),
		HostsDirs:   []string{hostsToml(t, "up.test", "[host.\"http://"+host+"/v2/proxy\"]\ncapabilities = [\"pull\"]\noverride_path = true\n")},
	}, func(b *bubble) {
		t := b.t
		l := addLayer(t, b.reg, "proxy/a/b", 1<<16)
		s := blobs(t, b.c, "up.test/a/b")
		l.read(t.Context(), t, s, 0, 100)
		l.read(t.Context(), t, s, 100, 100)
		if n := b.reg.Count(registrytest.Token); n != 1 {
			t.Errorf("%d token requests, want 1", n)
		}
	})
}
