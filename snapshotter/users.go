package snapshotter

import (
	"context"
	"errors"
	"sync"
)

// users are the snapshots that have, or are getting, something mounted. Each has a turn: who holds it is alone with the Mounter for that user,
// so that concurrent Mounts of one key mount once, and a Release never overtakes the Mount that it must undo.
type users struct {
	mu sync.Mutex
	m  map[string]*user
}

type user struct {
	turn    chan struct{} // capacity 1; full while taken
	inside  int           // holder and waiters; users.mu
	mounted bool          // written by the holder; users.mu
}

// enter waits for the turn of id. The caller leaves with the same user.
func (us *users) enter(ctx context.Context, id string) (u *user, mounted bool, err error) {
	us.mu.Lock()
	if us.m == nil {
		us.m = map[string]*user{}
	}
	u = us.m[id]
	if u == nil {
		u = &user{turn: make(chan struct{}, 1)}
		us.m[id] = u
	}
	u.inside++
	us.mu.Unlock()
	select {
	case u.turn <- struct{}{}:
		us.mu.Lock()
		defer us.mu.Unlock()
		return u, u.mounted, nil
	case <-ctx.Done():
		us.mu.Lock()
		defer us.mu.Unlock()
		us.drop(id, u)
		return nil, false, ctx.Err()
	}
}

// leave gives the turn back. A user with nothing mounted and nobody waiting is forgotten.
func (us *users) leave(id string, u *user, mounted bool) {
	us.mu.Lock()
	defer us.mu.Unlock()
	u.mounted = mounted
	<-u.turn
	us.drop(id, u)
}

// drop needs mu.
func (us *users) drop(id string, u *user) {
	u.inside--
	if u.inside == 0 && !u.mounted {
		delete(us.m, id)
	}
}

func (us *users) known(id string) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	return us.m[id] != nil
}

func (us *users) ids() (all []string) {
	us.mu.Lock()
	defer us.mu.Unlock()
	for id := range us.m {
		all = append(all, id)
	}
	return all
}

// hold mounts the runs of c for c.id and returns the lower directories, top first. When it fails, nothing new is left mounted.
func (s *snapshotter) hold(ctx context.Context, c chain) ([]string, error) {
	return within(ctx, &s.calls, func(ctx context.Context) ([]string, error) {
		u, had, err := s.users.enter(ctx, c.id)
		if err != nil {
			return nil, err
		}
		mounted := true
		defer func() { s.users.leave(c.id, u, mounted) }()
		dirs, err := s.lowers(ctx, c)
		if err == nil || had { // a container may already run on what c.id has
			return dirs, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.releaseWait)
		defer cancel()
		rerr := s.mounter.Release(ctx, c.id)
		mounted = rerr != nil
		return nil, errors.Join(err, rerr)
	})
}

// release gives back what user has mounted.
func (s *snapshotter) release(ctx context.Context, id string) error {
	u, mounted, err := s.users.enter(ctx, id)
	if err != nil {
		return err
	}
	defer func() { s.users.leave(id, u, mounted) }()
	if !mounted {
		return nil
	}
	if err := s.mounter.Release(ctx, id); err != nil {
		return err
	}
	mounted = false
	return nil
}
