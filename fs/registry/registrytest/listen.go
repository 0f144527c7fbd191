package registrytest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// TLS says what is spoken on a port.
type TLS int

// What may be spoken on a port.
const (
	Plain  TLS = iota // http
	Secure            // https with a self-signed certificate
	Both              // https with a self-signed certificate, and http
)

// splitter tells TLS from plain http by the first byte of each connection.
type splitter struct {
	net.Listener
	speaks   TLS
	conf     *tls.Config // nil for Plain
	hellos   atomic.Int64
	accepted atomic.Int64
}

// Accept returns the next connection. Where both protocols are spoken it waits
// for the first byte: a client that sends none holds up the others.
func (s *splitter) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s.accepted.Add(1)
		p := &peeked{Conn: c, r: bufio.NewReader(c), hello: &s.hellos}
		switch s.speaks {
		case Plain:
			return p, nil
		case Secure:
			return tls.Server(p, s.conf), nil
		case Both:
			first, err := p.r.Peek(1)
			switch {
			case err != nil:
				_ = c.Close()
			case first[0] == helloByte:
				return tls.Server(p, s.conf), nil
			default:
				return p, nil
			}
		}
	}
}

// helloByte is the first byte of a TLS handshake record.
const helloByte = 0x16

type peeked struct {
	net.Conn
	r     *bufio.Reader
	first sync.Once
	hello *atomic.Int64
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	p.first.Do(func() {
		if c, err := p.r.Peek(1); err == nil && c[0] == helloByte {
			p.hello.Add(1)
		}
	})
	return p.r.Read(b)
}

// SetLinger reaches through to a TCP connection.
func (p *peeked) SetLinger(sec int) error {
	if t, ok := p.Conn.(*net.TCPConn); ok {
		return t.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// split prepares a listener to be served.
func split(lis net.Listener, t TLS, name string) (s *splitter, scheme string, ca []byte, err error) {
	s = &splitter{Listener: lis, speaks: t}
	if t == Plain {
		return s, "http", nil, nil
	}
	cert, ca, err := selfSigned(name)
	if err != nil {
		return nil, "", nil, err
	}
	s.conf = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t == Both {
		return s, "http", ca, nil
	}
	return s, "https", ca, nil
}

// serve serves h until the returned function is called, which waits for the
// handlers that still run.
func (s *splitter) serve(h http.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var handlers sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			h.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // faults are on purpose
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(s)
	}()
	return func() {
		cancel()
		_ = srv.Close()
		<-done
		handlers.Wait()
	}
}
