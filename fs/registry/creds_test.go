package registry

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/fs/registry/registrytest"
)

// dockerConfig writes a config.json into dir.
func dockerConfig(t *testing.T, dir, format string, a ...any) {
	t.Helper()
	// Replaced as docker login does it: a reader sees the old file or the new.
	tmp := filepath.Join(dir, "new")
	if err := os.WriteFile(tmp, fmt.Appendf(nil, format, a...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
}

func basicAuth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// helperScript makes a credential helper of that name on the PATH of the test.
func helperScript(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, helperPrefix+name), []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestRA06_RotatedConfig(t *testing.T) {
	for _, basic := range []bool{false, true} {
		t.Run(fmt.Sprintf("basic=%v", basic), func(t *testing.T) {
			auth := &registrytest.Auth{Basic: basic, Users: map[string]string{"u": "old"}, TTL: 3 * time.Second}
			dir := t.TempDir()
			inBubble(t, registrytest.Options{Auth: auth}, Options{DockerConfig: dir}, func(b *bubble) {
				t := b.t
				dockerConfig(t, dir, `{"auths":{%q:{"auth":%q}}}`, host, basicAuth("u", "old"))
				l := addLayer(t, b.reg, "a/b", 1<<16)
				s := blobs(t, b.c, host+"/a/b")
				l.read(t.Context(), t, s, 0, 100)
				dockerConfig(t, dir, `{"auths":{"https://%s/":{"username":"u","password":"new"}}}`, host)
				auth.SetUser("u", "new")
				time.Sleep(10 * time.Second)
				l.read(t.Context(), t, s, 100, 100)
			})
		})
	}
}

// TestRA06_Helper: each call of the helper prints another password, and only
// the last one printed is good.
func TestRA06_Helper(t *testing.T) {
	for _, basic := range []bool{false, true} {
		t.Run(fmt.Sprintf("basic=%v", basic), func(t *testing.T) {
			count := filepath.Join(t.TempDir(), "count")
			helperScript(t, "counting", `read server
echo "$1 $server" >> `+count+`
n=$(wc -l < `+count+`)
echo '{"ServerURL":"'$server'","Username":"u","Secret":"p'$n'"}'
`)
			dir := t.TempDir()
			auth := &registrytest.Auth{Basic: basic, Users: map[string]string{"u": "p1"}, TTL: 2 * time.Second}
			reg := registrytest.New(t, registrytest.Options{Auth: auth})
			dockerConfig(t, dir, `{"auths":{},"credHelpers":{%q:"counting"}}`, reg.Host())
			l := addLayer(t, reg, "a/b", 1<<16)
			s := blobs(t, newClient(t, Options{DockerConfig: dir}), reg.Host()+"/a/b")
			l.read(t.Context(), t, s, 0, 100)
			auth.SetUser("u", "p2")
			auth.Revoke()
			l.read(t.Context(), t, s, 100, 100)
			got, err := os.ReadFile(count)
			if want := strings.Repeat("get "+reg.Host()+"\n", 2); err != nil || string(got) != want {
				t.Errorf("helper was asked %q, %v, want %q", got, err, want)
			}
		})
	}
}

// ends waits for the process of a file to end; false when it does not.
func ends(t *testing.T, pidFile string) bool {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}

func TestCredentials(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	helperScript(t, "store", `read server
case $server in
id.test) echo '{"Username":"<token>","Secret":"identity"}' ;;
none.test) echo "credentials not found in native keychain"; exit 1 ;;
broken.test) echo "panic: secret-marker"; echo "secret-marker" >&2; exit 1 ;;
garbage.test) echo "secret-marker" ;;
slow.test) sleep 60 & echo $! > `+child+`; wait ;;
https://index.docker.io/v1/) echo '{"Username":"hub","Secret":"h"}' ;;
esac
`)
	t.Run("helpers", func(t *testing.T) {
		dir := t.TempDir()
		dockerConfig(t, dir, `{"credsStore":"store","credHelpers":{"path.test":"../evil","missing.test":"missing"}}`)
		c := credentials{dir: dir, timeout: 300 * time.Millisecond}
		for host, want := range map[string]Credential{
			"id.test":              {IdentityToken: "identity"},
			"none.test":            {},
			"registry-1.docker.io": {Username: "hub", Password: "h"},
		} {
			if got, err := c.get(t.Context(), host, ""); err != nil || got != want {
				t.Errorf("%s: %#v, %v", host, got, err)
			}
		}
		begin := time.Now()
		for _, host := range []string{"broken.test", "garbage.test", "slow.test", "path.test", "missing.test"} {
			got, err := c.get(t.Context(), host, "")
			if err == nil || strings.Contains(err.Error(), "secret-marker") || got != (Credential{}) {
				t.Errorf("%s: %v, %v", host, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "credential helper") {
				t.Errorf("%s: error does not say what failed: %v", host, err)
			}
		}
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("a helper that hangs held us for %v", d)
		}
		if !ends(t, child) {
			t.Error("a helper that hung left a process behind")
		}
	})

	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		dockerConfig(t, dir, `{"auths":{
			"a.test":{"auth":%q},
			"http://b.test/v1/":{"username":"b","password":"2"},
			"c.test":{"identitytoken":"id"},
			"d.test":{"registrytoken":"reg"},
			"https://index.docker.io/v1/":{"auth":%q},
			"bad.test":{"auth":%q}}}`,
			basicAuth("a", "1:2"), basicAuth("hub", "h"), base64.StdEncoding.EncodeToString([]byte("secret-marker")))
		c := credentials{dir: dir, timeout: time.Second}
		for host, want := range map[string]Credential{
			"a.test":               {Username: "a", Password: "1:2"},
			"b.test":               {Username: "b", Password: "2"},
			"c.test":               {IdentityToken: "id"},
			"d.test":               {RegistryToken: "reg"},
			"registry-1.docker.io": {Username: "hub", Password: "h"},
			"unknown.test":         {},
		} {
			if got, err := c.get(t.Context(), host, ""); err != nil || got != want {
				t.Errorf("%s: %#v, %v", host, got, err)
			}
		}
		if _, err := c.get(t.Context(), "bad.test", ""); err == nil || strings.Contains(err.Error(), "secret-marker") {
			t.Errorf("bad.test: %v", err)
		}
	})

	t.Run("no file, empty file, damaged file", func(t *testing.T) {
		dir := t.TempDir()
		c := credentials{dir: dir, timeout: time.Second}
		if got, err := c.get(t.Context(), "x", ""); err != nil || got != (Credential{}) {
			t.Errorf("no file: %v, %v", got, err)
		}
		dockerConfig(t, dir, " \n")
		if got, err := c.get(t.Context(), "x", ""); err != nil || got != (Credential{}) {
			t.Errorf("empty file: %v, %v", got, err)
		}
		dockerConfig(t, dir, "{")
		if _, err := c.get(t.Context(), "x", ""); err == nil {
			t.Error("damaged file: no error")
		}
	})

	t.Run("asked first", func(t *testing.T) {
		dir := t.TempDir()
		dockerConfig(t, dir, `{"auths":{"a.test":{"auth":%q},"b.test":{"auth":%q}}}`, basicAuth("f", "f"), basicAuth("f", "f"))
		c := credentials{dir: dir, ask: byHost{"a.test": {Username: "asked"}}.get}
		for host, want := range map[string]string{"a.test": "asked", "b.test": "f"} {
			if got, err := c.get(t.Context(), host, ""); err != nil || got.Username != want {
				t.Errorf("%s: %v, %v", host, got, err)
			}
		}
	})
}

func TestCredentialPrintsNoSecret(t *testing.T) {
	c := Credential{Username: "u", Password: "secret-marker", IdentityToken: "secret-marker", RegistryToken: "secret-marker"}
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(f, c); strings.Contains(s, "secret-marker") {
			t.Errorf("%s prints %s", f, s)
		}
	}
}

func TestRegistryToken(t *testing.T) {
	auth := &registrytest.Auth{Users: users, Prefix: "reg-"}
	reg := registrytest.New(t, registrytest.Options{Auth: auth})
	l := addLayer(t, reg, "a/b", 1<<16)
	// A token bought with the password, then given as a registry token.
	first := newClient(t, Options{Credentials: static("u", "p")})
	l.read(t.Context(), t, blobs(t, first, reg.Host()+"/a/b"), 0, 100)
	second := newClient(t, Options{Credentials: byHost{reg.Host(): {RegistryToken: "reg-token-1"}}.get})
	l.read(t.Context(), t, blobs(t, second, reg.Host()+"/a/b"), 0, 100)
	if n := reg.Count(registrytest.Token); n != 1 {
		t.Errorf("%d token requests, want 1", n)
	}
}
