package peer

import (
	"bytes"
	"errors"
	"testing"
)

// A VM that begins pushes and ends none is thrown out before it has cost much.
func TestPushesThatDoNotEnd(t *testing.T) {
	r, opening := fuzzRelay(t, &fake{})
	says := opening
	for tag := range uint32(2 * maxPending) {
		says = append(says, frame(framePush, 0, tag, push{1, fuzzLayer.Ref(0)}.marshal())...)
	}
	says = append(says, frame(framePing, 0, 1, nil)...)
	c := newConn(r, script{Reader: bytes.NewReader(says)}, "you", false)
	if err := c.read(); !errors.Is(err, errProtocol) {
		t.Errorf("ended with %v", err)
	}
	if n := len(c.pushed); n > maxPending {
		t.Errorf("%d pushes are kept", n)
	}
}
