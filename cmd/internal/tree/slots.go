package tree

// A stripe with m interior VMs has 2m+1 slots. Slot 0 is the root, slot twin is
// the leaf below it that is kept for the root of the other stripe, and the
// others are a heap of their own below the root: the interior in slots 2..m,
// leaves in slots m+1..2m.
//
// The twin is what makes a burst quick whose VMs wait for each block that they
// read: a root is the first to have a block of its own stripe, and one step away
// from those of the other. It runs ahead, and what it reads is pushed to all
// others before they ask. Were it a leaf like the rest, everybody would wait for
// every other block to come down a whole tree. The price is one step of depth.
const twin = 1

// above returns the slot of whom slot i reads from.
func above(i int) int {
	switch {
	case i <= 0:
		return none
	case i <= 2:
		return 0
	}
	return (i + 1) / 2
}

// below returns the first of the two slots that read from interior slot i.
func below(i int) int {
	if i == 0 {
		return twin
	}
	return 2*i - 1
}

// last returns the last interior slot of a stripe with m > 0 interior VMs.
func last(m int) int {
	if m == 1 {
		return 0
	}
	return m
}
