package fs

import "sync/atomic"

// fairReads is how many READs of one layer are always let in.
const fairReads = 64

// admission keeps readers that hang on one layer from using up the requests
// that the kernel may have in flight on the one FUSE mount (max_background):
// those of a hung layer would stop every other container of the host. A READ
// above the limit fails at once with EIO.
type admission struct {
	layer int64 // most READs of one layer in flight
	total int64 // above this many in flight over all, a layer gets no more than fairReads

	active atomic.Int64
}

// newAdmission leaves half of the kernel's requests to other layers, and the
// last quarter to layers that have few.
func newAdmission(maxBackground int) *admission {
	return &admission{layer: int64(maxBackground) / 2, total: int64(maxBackground) * 3 / 4}
}

// enter counts a READ in, or reports false. Each true is undone by one leave.
func (a *admission) enter(layer *atomic.Int64) bool {
	mine, all := layer.Add(1), a.active.Add(1)
	limit := a.layer
	if all > a.total {
		limit = min(limit, fairReads)
	}
	if mine > limit {
		a.leave(layer)
		return false
	}
	return true
}

func (a *admission) leave(layer *atomic.Int64) {
	layer.Add(-1)
	a.active.Add(-1)
}
