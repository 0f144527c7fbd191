package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// greet exchanges preface and HELLO, and returns the name of the other VM.
func greet(ctx context.Context, c net.Conn, self string, limit time.Duration) (vm string, err error) {
	end := func() { _ = c.SetDeadline(time.Unix(1, 0)) } // where that fails the connection has
	defer context.AfterFunc(ctx, end)()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	hail := hello{self}.marshal()
	b := header{kind: frameHello, size: uint32(len(hail))}.append([]byte(preface))
	sent := make(chan error, 1) // both sides speak first
	go func() {
		_, err := c.Write(append(b, hail...))
		sent <- err
	}()
	vm, err = hear(c)
	if err != nil {
		end()
	}
	if err = errors.Join(err, <-sent); err != nil {
		return "", err
	}
	return vm, c.SetDeadline(time.Time{})
}

func hear(c net.Conn) (vm string, err error) {
	p := make([]byte, len(preface)+headerSize)
	if _, err := io.ReadFull(c, p); err != nil {
		return "", err
	}
	if string(p[:len(preface)]) != preface {
		return "", fmt.Errorf("not a relay of version 1: %w", errProtocol)
	}
	h, err := parseHeader(p[len(preface):])
	if err != nil || h.kind != frameHello || h.size > 2*maxName {
		return "", fmt.Errorf("no HELLO: %w", errProtocol)
	}
	p = make([]byte, h.size)
	if _, err := io.ReadFull(c, p); err != nil {
		return "", err
	}
	m, err := parseHello(p)
	return m.vm, err
}
