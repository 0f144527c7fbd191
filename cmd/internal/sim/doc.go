// Package sim runs fleets in virtual time: the real fetch, peer, treeclient,
// coordinator, registry and tree code of many VMs in one process, over a network
// in memory whose links have a rate and a latency and whose hosts are killed,
// stopped, cut off and slowed down. It has tests only, since virtual time is
// testing/synctest's.
//
// A fleet of a seed does the same each time: who joins, reads and fails when.
// Goroutines that run at the same virtual moment do so in any order, as do cases
// of a select and random pauses of the product, so two runs of a seed differ in
// detail; what the tests assert holds for all of them. `make sim` repeats a seed
// with SEED=S and tries many with SEEDS=n. The tests have the build tag sim and are
// no part of `make test`: how often the registry may be asked for one block in the
// worst of storms is not settled (seed 2 of 20 passes its bound at times).
package sim
