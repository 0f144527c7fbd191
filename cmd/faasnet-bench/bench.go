package main

import (
	"context"
	"errors"

	"github.com/faasnet/faasnet/script/lab"
)

// bench is a lab that no other run shares the machine with.
type bench struct {
	*lab.Lab
	unlock func() error
}

func newBench(ctx context.Context) (*bench, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tools, err := lab.FindTools()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	l, err := lab.New(tools)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return &bench{l, unlock}, nil
}

// close ends the lab; its error joins *err.
func (b *bench) close(err *error) { *err = errors.Join(*err, b.Close(), b.unlock()) }
