package main

import (
	"context"
	"fmt"
	"os"

	"github.com/faasnet/faasnet/convert/endpoint"
)

// alone waits for other recordings with the same runtime directory and keeps them
// out until done: each changes the readahead and the page cache of its disks, by
// which others see what is used of files. A process that is killed keeps nobody
// out.
func (r *recording) alone(ctx context.Context) (done func(), err error) {
	if err := os.MkdirAll(r.runtime, 0o755); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	dir, err := os.Open(r.runtime)
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	err = endpoint.Lock(ctx, dir, func() {
		fmt.Fprintf(r.stderr, "faasnet: waiting for another recording (%s is locked)\n", r.runtime)
	})
	if err != nil {
		dir.Close()
		return nil, err
	}
	return func() { dir.Close() }, nil
}
