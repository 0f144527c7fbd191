package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// pullAll is a start after a full pull: layers are fetched some at a time and
// unpacked in order, as containerd does.
func (s *starting) pullAll() error {
	client := &http.Client{Transport: &http.Transport{
		DisableCompression: true, MaxConnsPerHost: pullWays,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return s.v.costly(s.v.host.Dial(ctx, address))
		},
	}}
	defer client.CloseIdleConnections()
	here := make([]chan struct{}, len(s.m.blobs))
	for i := range here {
		here[i] = make(chan struct{})
	}
	var g, unpack errgroup.Group
	g.SetLimit(pullWays)
	unpack.Go(func() error {
		for _, c := range here {
			<-c
			s.v.cpu.use(seconds(s.what.Start.Unpack / float64(len(here))))
		}
		return nil
	})
	for i, blob := range s.m.blobs {
		g.Go(func() error {
			defer close(here[i])
			return s.v.get(client, blob)
		})
	}
	err := g.Wait()
	_ = unpack.Wait() // it never fails
	if err != nil {
		return err
	}
	s.First = s.now()
	s.v.phase(s.what.Start.Create)
	s.Made = s.now()
	s.v.phase(s.what.Start.Run)
	s.Ready = s.now()
	return nil
}

// get fetches a whole blob and throws it away.
func (v *vm) get(client *http.Client, blob string) error {
	url := fmt.Sprintf("http://%s/v2/%s/blobs/%s", v.w.regHost.Address(), repository, blob)
	r, err := http.NewRequestWithContext(background, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, a.Status)
	}
	_, err = io.Copy(io.Discard, a.Body)
	return err
}
