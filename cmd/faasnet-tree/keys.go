package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// loadKey reads a private key in PKCS #8 PEM, and makes one where there is
// none. A file that others may read is refused.
func loadKey(path string) (ed25519.PrivateKey, error) {
	key, err := readKey(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	if err := makeKey(path); err != nil {
		return nil, fmt.Errorf("make key %s: %w", path, err)
	}
	return readKey(path)
}

// readKey is loadKey where a key that is made now would be of no use.
func readKey(path string) (ed25519.PrivateKey, error) {
	p, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	block, _ := pem.Decode(p)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("key %s: no PRIVATE KEY in PEM", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key %s: want an Ed25519 key", path)
	}
	return key, nil
}

func readSecret(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, others may read it; want 0600", path, fi.Mode().Perm())
	}
	return os.ReadFile(path)
}

// makeKey writes a new key. If another process does so at the same time, one
// key wins.
func makeKey(path string) (err error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// loadPublic reads all public keys of PEM files.
func loadPublic(paths []string) (keys []ed25519.PublicKey, err error) {
	for _, path := range paths {
		rest, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("credential keys: %w", err)
		}
		before := len(keys)
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "PUBLIC KEY" {
				return nil, fmt.Errorf("credential keys %s: %s in PEM, want PUBLIC KEY", path, block.Type)
			}
			k, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("credential keys %s: %w", path, err)
			}
			key, ok := k.(ed25519.PublicKey)
			if !ok {
				return nil, fmt.Errorf("credential keys %s: want Ed25519 keys", path)
			}
			keys = append(keys, key)
		}
		if len(keys) == before { // a typing error must not open the door to everybody
			return nil, fmt.Errorf("credential keys %s: no PUBLIC KEY in PEM", path)
		}
	}
	return keys, nil
}

func publicPEM(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
