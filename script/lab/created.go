package lab

import (
	"context"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
)

// Created returns a channel that gets the time at which a container is made,
// ready to be started, once. It is closed after that, or without it when that cannot
// be heard of any more. Release with the returned function.
func (c *Containerd) Created(ctx context.Context) (<-chan time.Time, func() error, error) {
	client, err := containerd.New(c.Address())
	if err != nil {
		return nil, nil, err
	}
	events, _ := client.Subscribe(ctx, `topic=="/tasks/create"`)
	made := make(chan time.Time, 1)
	go func() {
		defer close(made)
		select {
		case e, ok := <-events:
			if ok && e != nil {
				made <- e.Timestamp
			}
		case <-ctx.Done():
		}
	}()
	return made, client.Close, nil
}
