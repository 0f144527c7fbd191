package wires

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/faasnet/faasnet/fs/block"
	"github.com/faasnet/faasnet/fs/fetch"
)

// overGRPC is gRPC: a call for each block, answered by a stream of pieces.
type overGRPC struct {
	load    *Load
	fetcher *fetch.Fetcher
	conn    *grpc.ClientConn // nil: there is no upstream
}

// piece is the most bytes of a message, that of our relay.
const piece = 64 << 10

const method = "/relay.Blocks/Get"

var stream = grpc.StreamDesc{StreamName: "Get", ServerStreams: true}

func newGRPC(c Config, load *Load) (wire, error) {
	g := &overGRPC{load: load}
	if c.Above == "" {
		return g, nil
	}
	var err error
	g.conn, err = grpc.NewClient("passthrough:///"+c.Upstream, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(piece), grpc.WithWriteBufferSize(piece))
	return g, err
}

func (g *overGRPC) received(block.Ref) {}

func (g *overGRPC) Sources(block.Ref) []block.Source {
	if g.conn == nil {
		return nil
	}
	return []block.Source{g}
}

func (g *overGRPC) serve(ctx context.Context, l net.Listener, f *fetch.Fetcher) error {
	g.fetcher = f
	s := grpc.NewServer(grpc.ReadBufferSize(piece), grpc.WriteBufferSize(piece))
	desc := stream
	desc.Handler = func(_ any, ss grpc.ServerStream) error { return g.get(ss) }
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "relay.Blocks", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, g)
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	err := s.Serve(l)
	if g.conn != nil {
		err = errors.Join(err, g.conn.Close())
	}
	return err
}

func (g *overGRPC) get(ss grpc.ServerStream) error {
	var want wrapperspb.UInt32Value
	if err := ss.RecvMsg(&want); err != nil {
		return err
	}
	if int(want.Value) >= g.load.table.Len() {
		return fmt.Errorf("block %d: %w", want.Value, errdefs.ErrNotFound)
	}
	ref := g.load.ref(int(want.Value))
	send := func(p []byte) error {
		for len(p) > 0 {
			n := min(len(p), piece)
			if err := ss.SendMsg(&wrapperspb.BytesValue{Value: p[:n]}); err != nil {
				return err
			}
			p = p[n:]
		}
		return nil
	}
	f, err := g.fetcher.Open(ss.Context(), ref)
	if err != nil {
		return tapped(ss.Context(), g.fetcher, ref, send)
	}
	defer f.Close()
	for p := make([]byte, piece); ; {
		n, err := f.Read(p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(p[:n]); err != nil {
			return err
		}
	}
}

func (g *overGRPC) ReadBlock(ctx context.Context, ref block.Ref, dst []byte) ([]byte, error) {
	return g.StreamBlock(ctx, ref, room(dst, ref), func(int) {})
}

func (g *overGRPC) StreamBlock(ctx context.Context, ref block.Ref, dst []byte, arrived func(int)) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cs, err := g.conn.NewStream(ctx, &stream, method)
	if err != nil {
		return dst, err
	}
	if err := cs.SendMsg(wrapperspb.UInt32(uint32(ref.Number))); err != nil {
		return dst, err
	}
	if err := cs.CloseSend(); err != nil {
		return dst, err
	}
	p := dst[len(dst) : len(dst)+ref.Size]
	for n := 0; n < len(p); {
		var m wrapperspb.BytesValue
		if err := cs.RecvMsg(&m); err != nil {
			return dst, err
		}
		if len(m.Value) > len(p)-n {
			return dst, fmt.Errorf("block %d is too long: %w", ref.Number, errdefs.ErrDataLoss)
		}
		n += copy(p[n:], m.Value)
		arrived(n)
	}
	return dst[:len(dst)+ref.Size], nil
}
