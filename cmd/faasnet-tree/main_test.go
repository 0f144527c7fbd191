package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/faasnet/faasnet/peer/identity"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAASNET_TREE_MAIN") != "" { // a test runs the program
		main()
		return
	}
	logrus.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// call runs the program in process.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = run(ctx, append([]string{"faasnet-tree"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--help", exitOK, "--scheduler-listen"},
		{"serve --help", exitOK, "--etcd"},
		{"tree --help", exitOK, "FUNCTION"},
		{"--version", exitOK, "faasnet-tree version"},
		{"grow", exitUsage, `no command "grow"`},
		{"--lisen :1", exitUsage, "lisen"},
		{"serve now", exitUsage, `unexpected argument "now"`},
		{"--listen :1 serve", exitUsage, "serve --listen"},
		{"--form bush", exitUsage, `form: tree form "bush"`},
		{"--heartbeat 0s", exitUsage, "heartbeat is not above 0"},
		{"--heartbeat soon", exitUsage, "soon"},
		{"--heartbeat 1ns", exitUsage, "heartbeat 1ns is not within"},
		{"--heartbeat 2m", exitUsage, "heartbeat 2m0s is not within"},
		{"--heartbeat 61ms --config testdata/short.toml", exitUsage, "token_ttl 600ms"},
		{"credential --tenant a --key-file /no/such/key", exitFailed, "/no/such/key"},
		{"--listen 7400", exitUsage, `listen "7400"`},
		{"--scheduler-listen :7401", exitUsage, "every tenant's trees"},
		{"--scheduler-listen 10.0.0.1:7401", exitUsage, "every tenant's trees"},
		{"--etcd http://127.0.0.1:1", exitUsage, "etcd.advertise"},
		{"--tls-cert x", exitUsage, "go together"},
		{"--tls-client-ca x", exitUsage, "needs tls.cert"},
		{"--log-level loud", exitUsage, "loud"},
		{"--config /no/such/file", exitUsage, "/no/such/file"},
		{"tree", exitUsage, "one FUNCTION"},
		{"watch a b", exitUsage, "one FUNCTION at most"},
		{"trees x", exitUsage, "unexpected argument"},
		{"trees --address 127.0.0.1:1", exitFailed, "127.0.0.1:1"},
		{"credential --tenant a", exitUsage, "key-file"},
		{"key", exitUsage, "one FILE"},
	} {
		code, stdout, stderr := call(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit %d, want %d; says %s%s, want %q", c.args, code, c.code, stdout, stderr, c.want)
		}
		if code != exitOK && strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s: an error of %d lines: %s", c.args, strings.Count(stderr, "\n"), stderr)
		}
	}
}

func TestConfigurationFile(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s, err := load(file("form = \"complete\"\nidle = \"1m\"\n[etcd]\nendpoints = [\"http://e:1\"]\nadvertise = \"c:2\"\n"), false)
	if err != nil || s.check() != nil || s.Form != "complete" || time.Duration(s.Idle) != time.Minute || s.Listen != defaultListen || s.advertise() != "c:2" {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"lisen = \":1\"":        `line 1: unknown key "lisen"`,
		"[etcd]\nendpoint = 1":  `line 2: unknown key "etcd.endpoint"`,
		"idle = \"long\"":       "long",
		"max_functions = \"1\"": "line 1",
	} {
		if code, _, stderr := call(t, "--config", file(text)); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s", text, code, stderr)
		}
	}
	// The command line goes before the file.
	if code, _, stderr := call(t, "--config", file("heartbeat = \"1s\""), "--heartbeat", "-1s"); code != exitUsage || !strings.Contains(stderr, "heartbeat") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if s, err = load(file("listen = \"10.0.0.1:7\"\n[etcd]\nendpoints = [\"x\"]"), false); err != nil || s.check() != nil || s.advertise() != "10.0.0.1:7" {
		t.Errorf("an address that VMs reach is advertised: %+v, %v", s, err)
	}
	if s, err := load("/no/such/file", true); err != nil || s.check() != nil {
		t.Errorf("without a file: %v", err)
	}
}

func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "a.key")
	keys := make([]ed25519.PrivateKey, 8)
	var wg sync.WaitGroup
	for i := range keys { // at the same time: one key wins
		wg.Go(func() {
			var err error
			if keys[i], err = loadKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !k.Equal(keys[0]) {
			t.Fatal("two keys of one file")
		}
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	code, public, stderr := call(t, "key", path)
	if code != exitOK || !strings.HasPrefix(public, "-----BEGIN PUBLIC KEY-----") {
		t.Fatalf("exit %d, %s%s", code, public, stderr)
	}
	pub := filepath.Join(t.TempDir(), "pub")
	if err := os.WriteFile(pub, []byte(public+public), 0o644); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadPublic([]string{pub})
	if err != nil || len(loaded) != 2 || !loaded[0].Equal(keys[0].Public()) {
		t.Errorf("%v, %v", loaded, err)
	}
	code, text, stderr := call(t, "credential", "--key-file", path, "--tenant", "acme", "--vm", "vm7", "--ttl", "1h")
	if code != exitOK {
		t.Fatal(stderr)
	}
	claims, err := identity.Verifier{Keys: loaded}.Verify(strings.TrimSpace(text), identity.Join)
	if left := time.Until(claims.Expires); err != nil || claims.Tenant != "acme" || claims.VM != "vm7" || left > time.Hour || left < 59*time.Minute {
		t.Errorf("%+v, %v", claims, err)
	}
	if code, _, _ := call(t, "credential", "--key-file", path, "--tenant", "acme", "--ttl", "0s"); code != exitUsage {
		t.Errorf("a credential for no time: exit %d", code)
	}
}

func TestBadKeys(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := filepath.Join(dir, "good")
	if _, err := loadKey(good); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{
		"open to others": write("open", string(text), 0o644),
		"garbage":        write("garbage", "garbage", 0o600),
		"empty":          write("empty", "", 0o600),
		"cut":            write("cut", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n", 0o600),
	} {
		if _, err := loadKey(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, path := range map[string]string{
		"absent":      filepath.Join(dir, "absent"),
		"empty":       write("nothing", "", 0o600),
		"private key": good,
	} {
		if _, err := loadPublic([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("public key, %s: %v", what, err)
		}
	}
	if code, _, stderr := call(t, "--key-file", good, "--credential-keys", write("none", "no key", 0o600), "--listen", "127.0.0.1:0"); code != exitFailed || !strings.Contains(stderr, "no PUBLIC KEY") {
		t.Errorf("exit %d, %s: a typing error must not open the door", code, stderr)
	}
}
