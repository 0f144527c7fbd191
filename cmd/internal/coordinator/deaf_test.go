package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/faasnet/faasnet/treeclient/treepb"
)

// A VM that asks and asks, and reads no answer, loses its stream before it has cost
// much memory, however long the names are that it asks for.
func TestDeafVM(t *testing.T) {
	c, err := New(Options{Key: testKey()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	s, err := c.greet(&treepb.Hello{Protocol: protocol, Vm: "deaf", Address: "10.0.0.1:7000"}, "10.0.0.1", end)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ü", 20_000)
	for i := range 2 * maxNews {
		name := fmt.Sprint(i, long[:(i%2)*len(long)])
		c.hear(ctx, s, &treepb.FromVM{Message: &treepb.FromVM_Join{Join: &treepb.Join{Function: name}}})
	}
	if err := context.Cause(ctx); !errors.Is(err, errDeaf) {
		t.Errorf("ended with %v", err)
	}
	bytes := 0
	for f := range s.news {
		bytes += len(f)
	}
	if len(s.news) > maxNews || bytes > maxNews*maxEcho {
		t.Errorf("%d pieces of news, names of %d bytes", len(s.news), bytes)
	}
}

// Tokens of functions that a VM has left are not kept.
func TestTokensOfFunctionsThatWereLeft(t *testing.T) {
	c, err := New(Options{Key: testKey()})
	if err != nil {
		t.Fatal(err)
	}
	k := tokens{c: c, member: member{DefaultTenant, "a"}, cached: map[string]token{}}
	for _, f := range []string{"here", "left"} {
		if err := k.put(&treepb.Assignment{Function: f}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	k.keep(map[string]bool{"here": true})
	if _, here := k.cached["here"]; !here || len(k.cached) != 1 {
		t.Errorf("kept %d", len(k.cached))
	}
}

// What can wait until a burst is over counts as unread, too: a VM that missed it
// would keep an old place.
func TestDeafVMInBurst(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	s := newSession(member{DefaultTenant, "deaf"}, "10.0.0.1:7000", end, time.Now())
	for i := range maxNews {
		if name := fmt.Sprint(i); !s.later(name) || s.later(name) {
			t.Fatalf("function %s is not held once", name)
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("ended early: %v", context.Cause(ctx))
	}
	if held := s.later("one more"); held || !errors.Is(context.Cause(ctx), errDeaf) || len(s.news) != maxNews {
		t.Errorf("held: %v, ended with %v, %d pieces of news", held, context.Cause(ctx), len(s.news))
	}
}
