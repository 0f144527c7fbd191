package registry

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/auth"
	"github.com/opencontainers/go-digest"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// FuzzAnswer lets a server answer anything: a read ends within its budget, with
// the bytes asked for or an error, and nothing else is written.
func FuzzAnswer(f *testing.F) {
	text := "0123456789"
	for _, s := range []string{
		"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\n2345",
		"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/10\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n2345\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
		"HTTP/1.1 200 OK\r\n\r\n0123456789",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n0123456789",
		"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/99999999999999999999\r\n\r\n2345",
		"HTTP/1.1 307 x\r\nLocation: /v2/a/b\r\n\r\n",
		"HTTP/1.1 307 x\r\nLocation: \x00://%zz\r\n\r\n",
		"HTTP/1.1 401 x\r\nWWW-Authenticate: Bearer realm=\"http://reg.test:5000/token\"\r\n\r\n",
		"HTTP/1.1 401 x\r\nWWW-Authenticate: Bearer realm=\"\"\r\nWWW-Authenticate: Basic\r\n\r\n",
		"HTTP/1.1 429 x\r\nRetry-After: -1\r\n\r\n",
		"HTTP/1.1 206 x\r\nContent-Encoding: gzip\r\nContent-Range: bytes 2-5/10\r\n\r\n2345",
		"HTTP/1.1 999 x\r\n\r\n", "HTTP/1.1 100 x\r\n\r\n", "nonsense", "",
	} {
		f.Add([]byte(s))
	}
	ref := block.Ref{Blob: digest.FromString(text), Offset: 2, Size: 4}
	f.Fuzz(func(t *testing.T, answer []byte) {
		synctest.Test(t, func(t *testing.T) {
			var n registrytest.Net
			lis := n.Listen(host)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := lis.Accept()
					if err != nil {
						return
					}
					_ = c.SetDeadline(time.Now().Add(time.Second))
					_, _ = http.ReadRequest(bufio.NewReader(c))
					_, _ = c.Write(answer)
					_ = c.Close()
				}
			}()
			c := newClient(t, Options{Dial: n.DialContext, PlainHTTP: []string{host}, Attempts: 2, Budget: 30 * time.Second, Credentials: static("u", "p")})
			begin := time.Now()
			dst := append(make([]byte, 0, 100), "kept"...)
			p, err := blobs(t, c, host+"/a/b").ReadBlock(t.Context(), ref, dst)
			if d := time.Since(begin); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
			if err != nil && string(p) != "kept" || err == nil && len(p) != 8 {
				t.Errorf("%q, %v", p, err)
			}
			if rest := dst[8:cap(dst)]; !bytes.Equal(rest, make([]byte, len(rest))) {
				t.Errorf("wrote past the block: %q", rest)
			}
			_ = lis.Close()
			<-done
		})
	})
}

func FuzzTokenAnswer(f *testing.F) {
	for _, s := range []string{`{"token":"x","expires_in":60}`, `{"access_token":"x"}`, `{"token":1}`, `{"token":"x","expires_in":"300"}`, `{"token":"x","expires_in":-1e99}`, `{`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, life, err := parseToken(strings.NewReader(s))
		if err == nil && (v == "" || life < time.Second || life > maxLifetime) {
			t.Errorf("%q, %v", v, life)
		}
	})
}

func TestTokenAnswers(t *testing.T) {
	for s, want := range map[string]time.Duration{
		`{"token":"x","expires_in":300}`:   5 * time.Minute,
		`{"token":"x","expires_in":"300"}`: 5 * time.Minute,
		`{"token":"x","expires_in":0}`:     time.Minute,
		`{"token":"x","expires_in":1e12}`:  maxLifetime,
		`{"token":"x"}`:                    time.Minute,
	} {
		if _, life, err := parseToken(strings.NewReader(s)); err != nil || life != want {
			t.Errorf("%s: %v, %v, want %v", s, life, err, want)
		}
	}
	for _, s := range []string{`{}`, `{"token":""}`, `[]`, `x`, strings.Repeat(" ", 10)} {
		if _, _, err := parseToken(strings.NewReader(s)); err == nil {
			t.Errorf("%s: no error", s)
		}
	}
}

func TestRealms(t *testing.T) {
	for realm, ok := range map[string]bool{
		"https://auth.test/token": true, "http://auth.test/token?x=y": true,
		"": false, "/token": false, "file:///etc/passwd": false, "http://%zz/": false, "https:///token": false,
	} {
		_, err := parseRealm(auth.Challenge{Parameters: map[string]string{"realm": realm}})
		if (err == nil) != ok {
			t.Errorf("%q: %v", realm, err)
		}
	}
}
