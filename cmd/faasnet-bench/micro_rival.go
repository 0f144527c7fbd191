package main

import (
	"context"
	"errors"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
	"github.com/faasnet/faasnet/script/lab"
)

// rivalStates lists the states of stargz: its cache has all files, or nothing.
func (k *microKept) rivalStates() []microState {
	return []microState{{rival, "cold", k.onCached}, {rival, "warm", k.onCached}, {rival, "registry", k.onUncached}}
}

// rivalVM is a VM with stargz.
func (k *microKept) rivalVM(ctx context.Context) (*microVM, error) {
	s, err := rivals.Find(rival)
	if err != nil {
		return nil, err
	}
	return k.microVM(ctx, rival, lab.Fleet{Plugin: func(ctx context.Context, vm *lab.Host) (*lab.Plugin, error) {
		return s.Start(ctx, vm, k.site.programs, k.site.server.Addr)
	}}, k.from)
}

// onCached is a VM whose cache has all files, because all were read.
func (k *microKept) onCached(ctx context.Context) (_ *microMount, _ func() error, err error) {
	if k.cached == nil {
		if k.cached, err = k.rivalVM(ctx); err != nil {
			return nil, nil, err
		}
		if k.filled, err = k.cached.open(ctx, k.from.ref(rival)); err != nil {
			return nil, nil, err
		}
		if err := k.filled.readAll(ctx); err != nil {
			return nil, nil, err
		}
	}
	return k.filled, nil, nil
}

// onUncached is a new VM.
func (k *microKept) onUncached(ctx context.Context) (*microMount, func() error, error) {
	vm, err := k.rivalVM(ctx)
	if err != nil {
		return nil, nil, err
	}
	o, err := vm.open(ctx, k.from.ref(rival))
	if err != nil {
		return nil, nil, errors.Join(err, vm.close())
	}
	return o, vm.close, nil
}
