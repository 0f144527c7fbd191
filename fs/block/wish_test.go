package block

import (
	"context"
	"testing"
)

func TestWish(t *testing.T) {
	if u, risen := WishOf(context.Background()).Urgency(); u != Now || risen != nil {
		t.Errorf("without a wish: %d, %v", u, risen)
	}
	w := NewWish(Later)
	ctx := WithWish(context.Background(), w)
	u, risen := WishOf(ctx).Urgency()
	if u != Later {
		t.Errorf("%d, want Later", u)
	}
	w.Raise(Later)
	select {
	case <-risen:
		t.Error("it has not risen")
	default:
	}
	for _, next := range []Urgency{Soon, Now} {
		w.Raise(next)
		<-risen
		if u, risen = w.Urgency(); u != next {
			t.Errorf("%d, want %d", u, next)
		}
	}
	if risen != nil {
		t.Error("it can rise no more, but says so")
	}
	w.Raise(Later)
	if u, _ := w.Urgency(); u != Now {
		t.Errorf("it has fallen to %d", u)
	}
}
