package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/images"
	"github.com/faasnet/faasnet/script/lab"
)

// keep has the registry keep what it gets for later runs, by the content of the
// test image: to make it fit for some systems takes minutes. What a reference
// names is not kept.
func (s *site) keep(ctx context.Context) error {
	cache, err := images.Cache()
	if err != nil {
		return err
	}
	s.programs = filepath.Join(cache, "rivals")
	if !images.IsName(s.image) {
		return nil
	}
	s.data, err = kept(ctx, s.image)
	return err
}

// kept is the directory of what is made of a test image, by its content.
func kept(ctx context.Context, image string) (dir string, err error) {
	cache, err := images.Cache()
	if err != nil {
		return "", err
	}
	layout, err := buildImage(ctx, image)
	if err != nil {
		return "", err
	}
	index, err := os.ReadFile(filepath.Join(layout, ocispec.ImageIndexFile))
	if err != nil {
		return "", err
	}
	const enough = 8
	sum := sha256.Sum256(index)
	return filepath.Join(cache, "compare", image+"-"+hex.EncodeToString(sum[:enough])), nil
}

// fillFor makes the programs of the systems, and in the registry r their forms
// of the image src, where they are missing.
func (s *site) fillFor(ctx context.Context, host *lab.Host, r *lab.Registry, src string) (err error) {
	var missing []rivals.System
	tags := map[string]bool{}
	for _, system := range s.systems {
		if system.Install != nil {
			if err := os.MkdirAll(s.programs, 0o755); err != nil {
				return err
			}
			if err := system.Install(ctx, s.programs, s.progress); err != nil {
				return fmt.Errorf("%s: %w", system.Name, err)
			}
		}
		if system.Convert == nil || tags[system.Tag] {
			continue
		}
		tags[system.Tag] = true
		there, err := hasTag(ctx, r.Addr, system.Tag)
		if err != nil {
			return err
		}
		if !there {
			missing = append(missing, system)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	w, err := s.workshop(ctx, host, r, src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, system := range missing {
		job := rivals.Conversion{Host: host, Containerd: w.Containerd, Namespace: w.namespace, Programs: s.programs, Source: src, Target: r.Addr + "/" + repository + ":" + system.Tag, Log: s.progress}
		if err := system.Convert(ctx, job); err != nil {
			return fmt.Errorf("%s: %w", system.Name, err)
		}
	}
	return nil
}

// hasTag asks the registry.
func hasTag(ctx context.Context, addr, tag string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+addr+"/v2/"+repository+"/manifests/"+tag, nil)
	if err != nil {
		return false, err
	}
	req.Header.Add("Accept", ocispec.MediaTypeImageManifest)
	req.Header.Add("Accept", ocispec.MediaTypeImageIndex)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNotFound:
		return resp.StatusCode == http.StatusOK, nil
	}
	return false, fmt.Errorf("registry: tag %s: %s", tag, resp.Status)
}
