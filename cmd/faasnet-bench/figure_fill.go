package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// fillMore has the registry keep, for this run, what f gives it besides the
// site's own image. It comes before prepare.
func (s *site) fillMore(ctx context.Context, f func(h *lab.Host, r *lab.Registry) error) (err error) {
	h, err := s.Host("more", nil)
	if err != nil {
		return err
	}
	s.data = filepath.Join(h.Dir(), "registry")
	r, err := h.Registry(ctx, s.data)
	if err != nil {
		return err
	}
	const patience = 10 * time.Second
	defer func() { err = errors.Join(err, r.Stop(patience)) }()
	return f(h, r)
}

// pushBoth pushes a test image as name:orig and, converted, as name:tag; its
// recorded conversion, where it is wanted, too.
func (s *site) pushBoth(ctx context.Context, h *lab.Host, r *lab.Registry, image, name, tag string, flags ...string) error {
	layout, err := buildImage(ctx, image)
	if err != nil {
		return err
	}
	src, err := r.Push(ctx, layout, name+":"+original)
	if err != nil {
		return err
	}
	return s.convert(ctx, h, r, image, src, r.Addr+"/"+name+":"+tag, flags...)
}
