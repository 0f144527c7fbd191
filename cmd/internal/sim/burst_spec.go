package sim

import (
	"time"

	"github.com/faasnet/faasnet/cmd/internal/tree"
)

// Systems that a fleet can start functions with.
const (
	Tree      = "faasnet"              // ours, as Burst.Form says
	NoTree    = "faasnet-notree"       // ours without a tree: on demand from the registry
	FullPull  = "overlayfs"            // all layers are pulled and unpacked before the start
	imageSeed = 7                      // of what images are filled with
	pullWays  = 3                      // layers that a full pull fetches at the same time
	latency   = 300 * time.Microsecond // one way, from any host to any other
)

// Image says how large an image is and what a start reads of it. Bytes are those
// that travel.
type Image struct {
	Layers  int   `json:"layers"`
	Bytes   int64 `json:"bytes"`   // of a full pull
	Section int64 `json:"section"` // of what is read first, to mount
	Blocks  int   `json:"blocks"`  // that a start reads
	Block   int64 `json:"block"`   // bytes of each of these
	Run     int   `json:"run"`     // blocks that it reads in order before it goes elsewhere; 0: all of a layer
	Spread  int   `json:"spread"`  // layers that these blocks lie in; 0: all
}

// BlockSize is what a block is decoded to, in bytes.
const BlockSize = 512 << 10

// Phase is a part of a start that has nothing to do with blocks: how long it
// takes where nothing else runs, and the CPU seconds in that.
type Phase struct {
	Wall float64 `json:"wall_s"`
	CPU  float64 `json:"cpu_s"`
}

// Start is what a start does besides reading blocks.
type Start struct {
	Pull   Phase `json:"pull"`   // until the image is there to be started, with our daemon
	Create Phase `json:"create"` // until the container is made
	Run    Phase `json:"run"`    // of the function, from then to READY
	// Serve are CPU seconds of our daemon and of the kernel that calls it, from
	// the container's making to READY, beyond what Costs say.
	Serve float64 `json:"serve_cpu_s"`
	// Unpack are CPU seconds of a full pull.
	Unpack float64 `json:"unpack_cpu_s"`
}

// Burst is a fleet of empty VMs that all start a function at the same moment.
type Burst struct {
	System   string    `json:"system"`
	Form     tree.Form `json:"form"`
	VMs      int       `json:"vms"`
	Starts   int       `json:"starts"`   // spread over VMs; 0: one each
	Images   int       `json:"images"`   // of the same size, different content; starts take turns; 0: one
	Rate     int64     `json:"rate"`     // of a VM's link, each way, in bits a second
	Registry int64     `json:"registry"` // of the registry's link
	Cores    int       `json:"cores"`    // of each VM
	Shared   bool      `json:"shared"`   // Cores are all that VMs and registry have together
	Scale    int       `json:"scale"`    // by which bytes and rates are divided; 0: 1
	Image    Image     `json:"image"`
	Recorded bool      `json:"recorded,omitempty"` // all that is read lies in a start layer
	Costs    Costs     `json:"costs"`
	Start    Start     `json:"start"`
}

// Begun is one start. Times count from the moment at which all began, in
// seconds.
type Begun struct {
	VM    int     `json:"vm"`
	First float64 `json:"first_block_s"` // when the first block of a layer was there
	Made  float64 `json:"create_s"`      // when the container was made
	Ready float64 `json:"ready_s"`
	Error string  `json:"error,omitempty"`
}

// Figures are what came of a burst, at the real size.
type Figures struct {
	Starts   []Begun `json:"starts"`
	Registry int64   `json:"registry_bytes"`
	Peers    int64   `json:"peer_bytes"`
	CPU      float64 `json:"cpu_s"`  // of all VMs
	Depth    int     `json:"depth"`  // of the deepest VM in any tree
	Wall     float64 `json:"wall_s"` // that the simulation took
}
