package main

import "github.com/faasnet/faasnet/cmd/internal/sim"

// traceShape is a trace as the paper tells it.
type traceShape struct {
	minutes float64
	rates   []sim.RateFrom
	handle  float64 // seconds of a request
	idle    float64
	keep    int
	burst   float64           // second in which the first large burst begins
	paper   map[string]string // what the paper has of a system
}

// traces are those of Figs. 11 to 13. That of the synthetic trace takes 82 VMs for
// 100 requests a second, so a request takes 0.8 s there. What the paper takes as
// idle it does not say; between its bursts VMs do go.
var traces = map[string]traceShape{
	"iot": {
		minutes: 55, handle: 2, idle: 300, keep: 20, burst: 9 * 60,
		rates: []sim.RateFrom{{At: 0, RPS: 10}, {At: 9 * 60, RPS: 300}, {At: 12 * 60, RPS: 400}, {At: 18 * 60, RPS: 350}, {At: 28 * 60, RPS: 10}, {At: 40 * 60, RPS: 100}, {At: 42 * 60, RPS: 400}},
		paper: map[string]string{
			sim.Tree:     "cold starts 6.8 to 7.9 s; response 6 s at most; normal after 28 s",
			sim.NoTree:   "cold starts 7 to 21 s, 80 % above 10 s",
			sim.FullPull: "response 28 s at most; normal after 113 s",
		},
	},
	"synthetic": {
		minutes: 26, handle: 0.8, idle: 60, keep: 30, burst: 11 * 60,
		rates: []sim.RateFrom{{At: 0, RPS: 1}, {At: 11 * 60, RPS: 100}, {At: 14 * 60, RPS: 1}, {At: 21 * 60, RPS: 100}, {At: 24 * 60, RPS: 1}},
		paper: map[string]string{
			sim.Tree:   "96 % of cold starts in 5.8 s; height 2, 7 (82 VMs), 5, 7; normal after 10 s",
			sim.NoTree: "cold starts 7 to 21 s, 80 % above 10 s",
		},
	},
}
