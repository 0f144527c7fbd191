package peer

import "time"

// Fault is how another VM fails.
type Fault int

// Faults. The numbers are those of treeclient.
const (
	Unreachable Fault = 1 + iota // no connection
	Silent                       // no sign of life while we waited
	Corrupt                      // bad bytes under a good verdict
	Slow                         // loses to others again and again
	Quiet                        // no sign of life for two fifths of that time: not a fault yet
)

func (f Fault) String() string {
	return [...]string{"", "unreachable", "silent", "corrupt", "slow", "quiet"}[f]
}

// Report says that an upstream fails.
type Report struct {
	Function string
	Stripe   int // in which it is our upstream
	VM       string
	Fault    Fault
	Since    time.Time // when that began of which the fault is concluded
}
