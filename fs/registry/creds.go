package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	orascreds "oras.land/oras-go/v2/registry/remote/credentials"
)

// Credential is what a host is told: a user and a password, or a long-lived
// token that buys tokens (IdentityToken), or a token (RegistryToken).
type Credential struct {
	Username, Password string
	IdentityToken      string
	RegistryToken      string
}

// String hides the secrets.
func (c Credential) String() string { return "credential of " + c.Username }

// GoString hides the secrets.
func (c Credential) GoString() string { return c.String() }

// credentials finds the credential of a host, anew each time it is asked, so
// that rotated files and helpers that print something new are honoured.
type credentials struct {
	ask     func(ctx context.Context, host, repository string) (Credential, error)
	dir     string
	timeout time.Duration // of a helper
}

// helperPrefix begins the names of Docker's credential helpers.
const helperPrefix = "docker-credential-"

// get returns the zero Credential where there is none. Its errors quote
// neither files nor helpers: both hold secrets.
func (c credentials) get(ctx context.Context, host, repository string) (Credential, error) {
	if c.ask != nil {
		cred, err := c.ask(ctx, host, repository)
		if err != nil {
			return Credential{}, fmt.Errorf("credentials of %s: %w", host, err)
		}
		if cred != (Credential{}) {
			return cred, nil
		}
	}
	if c.dir == "" {
		return Credential{}, nil
	}
	file := filepath.Join(c.dir, "config.json")
	server := orascreds.ServerAddressFromHostname(host)
	helper, err := helperOf(file, server)
	if err != nil || helper == "" {
		if err == nil {
			return fromFile(ctx, file, server)
		}
		return Credential{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return run(ctx, helper, server)
}

// helperOf returns the helper that a configuration file names for a server.
func helperOf(file, server string) (string, error) {
	p, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("credentials: %w", err)
	}
	var conf struct {
		CredsStore  string            `json:"credsStore"`
		CredHelpers map[string]string `json:"credHelpers"`
	}
	if len(bytes.TrimSpace(p)) > 0 && json.Unmarshal(p, &conf) != nil {
		return "", fmt.Errorf("credentials: %s is not valid JSON: %w", file, errdefs.ErrInvalidArgument)
	}
	if h := conf.CredHelpers[server]; h != "" {
		return h, nil
	}
	return conf.CredsStore, nil
}

func fromFile(ctx context.Context, file, server string) (Credential, error) {
	bad := fmt.Errorf("credentials of %s in %s cannot be read: %w", server, file, errdefs.ErrInvalidArgument)
	s, err := orascreds.NewFileStore(file)
	if err != nil {
		return Credential{}, bad
	}
	c, err := s.Get(ctx, server)
	if err != nil {
		return Credential{}, bad
	}
	return Credential{Username: c.Username, Password: c.Password, IdentityToken: c.RefreshToken, RegistryToken: c.AccessToken}, nil
}

// identityUser is the user name by which a helper says that the secret is an
// identity token.
const identityUser = "<token>"

// notFound is what a helper prints, with a failure, when it has no credentials.
const notFound = "credentials not found in native keychain"

// run asks a helper by Docker's protocol. Its output is never shown and its
// standard error goes nowhere.
func run(ctx context.Context, helper, server string) (Credential, error) {
	if strings.ContainsRune(helper, filepath.Separator) {
		return Credential{}, fmt.Errorf("credential helper %q is a path: %w", helper, errdefs.ErrInvalidArgument)
	}
	cmd := exec.CommandContext(ctx, helperPrefix+helper, "get")
	cmd.Stdin = strings.NewReader(server)
	// The helper may be a script: its children go with it, and do not hold the
	// pipe open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if strings.TrimSpace(string(out)) == notFound {
			return Credential{}, nil
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return Credential{}, fmt.Errorf("credential helper %s for %s: %s: %w", helper, server, exit.ProcessState, errdefs.ErrUnavailable)
		}
		return Credential{}, fmt.Errorf("credential helper %s for %s: %w: %w", helper, server, err, errdefs.ErrUnavailable)
	}
	var c struct{ Username, Secret string }
	if json.Unmarshal(out, &c) != nil {
		return Credential{}, fmt.Errorf("credential helper %s for %s: answer is not JSON: %w", helper, server, errdefs.ErrUnavailable)
	}
	if c.Username == identityUser {
		return Credential{IdentityToken: c.Secret}, nil
	}
	return Credential{Username: c.Username, Password: c.Secret}, nil
}
