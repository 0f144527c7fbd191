package block

import "context"

// Streamer is a Source that tells how much of a block has arrived while it
// arrives, so that it can be relayed piece by piece.
type Streamer interface {
	Source
	// StreamBlock is ReadBlock for a dst that has room for ref.Size more bytes:
	// it fills that room in place. Whenever more has arrived it calls
	// arrived(n): the first n bytes are there and will not change. With the n
	// of the call before it means that the source is alive and waits itself.
	// The calls come one at a time, with n that does not fall, and none after
	// StreamBlock has returned. The bytes are not verified.
	StreamBlock(ctx context.Context, ref Ref, dst []byte, arrived func(n int)) ([]byte, error)
}

// Tap is a block on its way, read by somebody who does not wait for the whole.
type Tap interface {
	// Next returns bytes that follow those returned before, as soon as there
	// are any. They are shared: nobody writes to them, and they are valid until
	// Close. io.EOF comes after the last byte and means that the whole block
	// was verified and is what was handed out. Any other error means that what
	// was handed out is worth nothing.
	Next(ctx context.Context) ([]byte, error)
	// Close gives up. It is called once, and not while Next runs.
	Close()
}

// Sender is who sends a block unasked. Its methods do not wait.
type Sender interface {
	// Urge says that somebody waits for the block.
	Urge()
	// Corrupt says that the bytes are not the block, although the sender vouched
	// for them.
	Corrupt(err error)
}

// Sink takes a block that somebody sends unasked. All but its End is called by
// one goroutine, never waits, and stops with End.
type Sink interface {
	// Buffer is where the block goes: Ref.Size bytes that belong to the sender
	// until End.
	Buffer() []byte
	// Arrived says that the first n bytes of Buffer are there and will not
	// change. With the n of the call before it means that the sender is alive.
	// false is the answer that nobody wants the rest.
	Arrived(n int) bool
	// End ends the transfer, exactly once: nil when all has arrived and the
	// sender vouches for it.
	End(err error)
}
