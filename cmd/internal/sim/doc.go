// Package sim runs fleets in virtual time: the real fetch, peer, treeclient,
// coordinator, registry and tree code of many VMs in one process, over a network
// in memory whose links have a rate and a latency and whose hosts are killed,
// stopped, cut off and slowed down. Virtual time is testing/synctest's, so that a
// program runs a fleet as a test of its own (Main).
//
// A fleet of a seed does the same each time: who joins, reads and fails when.
// Goroutines that run at the same virtual moment do so in any order, as do cases
// of a select and random pauses of the product, so two runs of a seed differ in
// detail; what the tests assert holds for all of them. `make sim` repeats a seed
// with SEED=S and tries many with SEEDS=n.
//
// Blocks and links are scaled down. In tests a processor costs nothing: figures
// are those of the network and of what waits for what. In a Burst what VMs compute
// takes the time that Costs and Start say, on cores that take turns.
package sim
