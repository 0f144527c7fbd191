package main

// burstRow is one burst. Times count from its begin; medians and the like are
// over the VMs that were not struck, bytes and CPU seconds sums over all VMs.
type burstRow struct {
	burstPlan
	Rep int `json:"rep"`

	ReadyMedian float64 `json:"ready_median_s"`
	ReadyP95    float64 `json:"ready_p95_s"`
	ReadyMax    float64 `json:"ready_max_s"`
	// Bound is how long the link of a VM takes for the bytes of the image's
	// layers; 0 unless all is read.
	Bound float64 `json:"bound_s,omitempty"`
	// RegistryBytes left the registry's port of the bridge, headers and
	// repeated packets included. Peer and cache bytes are what the daemons say.
	RegistryBytes int64 `json:"registry_bytes"`
	PeerBytes     int64 `json:"peer_bytes"`
	CacheBytes    int64 `json:"cache_bytes"`
	// Reparented counts changes of the upstream of VMs that had one.
	Reparented  int     `json:"reparented"`
	FailedVMs   int     `json:"failed_vms"`   // not READY, though not struck
	FailedReads int64   `json:"failed_reads"` // of containers on VMs that were not struck
	BadBlocks   int64   `json:"bad_blocks"`   // that came over the network
	CPU         float64 `json:"cpu_s"`
	// Medians of the VMs'. Disks are measured for comparisons only.
	ReceivedBytes int64 `json:"received_bytes"`
	PeakMemory    int64 `json:"peak_memory_bytes"`
	Disk          int64 `json:"disk_bytes,omitempty"`

	// ImageBytes are those of the layers of the image that lazy systems pull.
	// Fallback is why the burst of such a one was a full pull in truth.
	ImageBytes int64  `json:"image_bytes,omitempty"`
	Fallback   string `json:"fallback,omitempty"`

	OriginCPU float64 `json:"origin_cpu_s"`
	TreeCPU   float64 `json:"tree_cpu_s,omitempty"`
	Struck    string  `json:"struck,omitempty"`

	PerVM []burstVM `json:"per_vm"`
}

// burstVM is one VM of a burst. Pull, Create and Ready are when the image was
// pulled, the container made (or the image mounted, where all is read) and READY
// printed. Bytes are what our daemon says; where there is none, all that came is
// the registry's.
type burstVM struct {
	VM            string   `json:"vm"`
	Pull          float64  `json:"pull_s"`
	Create        float64  `json:"create_s"`
	Ready         float64  `json:"ready_s"`
	RegistryBytes int64    `json:"registry_bytes"`
	PeerBytes     int64    `json:"peer_bytes"`
	CacheBytes    int64    `json:"cache_bytes"`
	SentBytes     int64    `json:"sent_bytes"`     // by its port of the bridge
	ReceivedBytes int64    `json:"received_bytes"` // by its port of the bridge
	CPU           float64  `json:"cpu_s"`
	PeakMemory    int64    `json:"peak_memory_bytes"`    // peaks of its containerd and of its snapshotter's daemon, added
	Disk          int64    `json:"disk_bytes,omitempty"` // that its files take at the end
	DaemonCPU     float64  `json:"daemon_cpu_s"`         // of it, since the daemon's start
	Upstreams     []string `json:"upstreams,omitempty"`  // of each stripe, at the end
	Depths        []uint32 `json:"depths,omitempty"`
	FUSEMounts    int      `json:"fuse_mounts,omitempty"` // at the end, of lazy systems
	Error         string   `json:"error,omitempty"`
	// From is what came from other VMs over connections that were open at the
	// end, by VM; only with a tree.
	From map[string]int64 `json:"received_from,omitempty"`

	failedReads, badBlocks int64
}

// total fills in what comes from the VMs.
func (r *burstRow) total() {
	var ready []float64
	for _, vm := range r.PerVM {
		r.PeerBytes += vm.PeerBytes
		r.CacheBytes += vm.CacheBytes
		r.CPU += vm.CPU
		if vm.VM == r.Struck {
			continue
		}
		r.FailedReads += vm.failedReads
		r.BadBlocks += vm.badBlocks
		if vm.Error != "" {
			r.FailedVMs++
			continue
		}
		ready = append(ready, vm.Ready)
	}
	r.ReadyMedian, r.ReadyP95, r.ReadyMax = median(ready), percentile(ready, 0.95), percentile(ready, 1)
	r.ReceivedBytes = median(column(r.PerVM, func(vm burstVM) int64 { return vm.ReceivedBytes }))
	r.PeakMemory = median(column(r.PerVM, func(vm burstVM) int64 { return vm.PeakMemory }))
	r.Disk = median(column(r.PerVM, func(vm burstVM) int64 { return vm.Disk }))
	r.Fallback = r.fallback()
}
