package main

import (
	"context"
	"errors"
	"time"

	"github.com/faasnet/faasnet/script/lab"
)

// traffic is what went over the links of a burst's VMs by time.
type traffic struct {
	every time.Duration

	samples []trafficSample // of the last burst
}

type trafficSample struct {
	after time.Duration // the begin
	links []lab.Traffic // of each VM, since the begin
}

// lookOn follows the links from the begin, if the traffic is wanted, until the
// function that it returns is called or ctx ends.
func (b *burst) lookOn(ctx context.Context, begin time.Time) (end func() error, err error) {
	t := b.traffic
	if t == nil {
		return func() error { return nil }, nil
	}
	t.samples = nil
	counters, err := b.hub.Traffics()
	if err != nil {
		return nil, err
	}
	var links []*lab.Net
	for _, vm := range b.vms {
		links = append(links, vm.Net)
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- t.follow(ctx, begin, counters, links) }()
	return func() error {
		stop()
		return <-done
	}, nil
}

func (t *traffic) follow(ctx context.Context, begin time.Time, counters *lab.Traffics, links []*lab.Net) (err error) {
	defer func() { err = errors.Join(err, counters.Close()) }()
	time.Sleep(time.Until(begin))
	first, err := counters.Read(links...)
	if err != nil {
		return err
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		now, err := counters.Read(links...)
		if err != nil {
			return err
		}
		s := trafficSample{after: time.Since(begin), links: now}
		for i := range now {
			s.links[i].Sent -= first[i].Sent
			s.links[i].Received -= first[i].Received
		}
		t.samples = append(t.samples, s)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// firstData is when VM i had received so many bytes; 0 when it never had.
func (t *traffic) firstData(i int, bytes int64) time.Duration {
	for _, s := range t.samples {
		if s.links[i].Received >= bytes {
			return s.after
		}
	}
	return 0
}
