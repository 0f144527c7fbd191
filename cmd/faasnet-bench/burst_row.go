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
	OriginCPU   float64 `json:"origin_cpu_s"`
	TreeCPU     float64 `json:"tree_cpu_s,omitempty"`
	Struck      string  `json:"struck,omitempty"`

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
	SentBytes     int64    `json:"sent_bytes"` // by its port of the bridge
	CPU           float64  `json:"cpu_s"`
	DaemonCPU     float64  `json:"daemon_cpu_s"`        // of it, since the daemon's start
	Upstreams     []string `json:"upstreams,omitempty"` // of each stripe, at the end
	Depths        []uint32 `json:"depths,omitempty"`
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
}

// burstSummary is what the bursts of a plan come to.
type burstSummary struct {
	burstPlan
	Reps int `json:"reps"`

	ReadyMedian   float64 `json:"ready_median_s"`
	ReadyP95      float64 `json:"ready_p95_s"`
	ReadyMax      float64 `json:"ready_max_s"`
	RegistryBytes int64   `json:"registry_bytes"`
	PeerBytes     int64   `json:"peer_bytes"`
	CPU           float64 `json:"cpu_s"`
	Reparented    int64   `json:"reparented"`
	FailedVMs     int     `json:"failed_vms"`   // over all repetitions
	FailedReads   int64   `json:"failed_reads"` // over all repetitions
	// OverOne and EgressOverOne compare with the same system's bursts of one
	// VM in the same repetition, OverBound with the link's bound. 0: none.
	OverOne       float64 `json:"ready_over_one_vm,omitempty"`
	EgressOverOne float64 `json:"registry_bytes_over_one_vm,omitempty"`
	OverBound     float64 `json:"over_bound,omitempty"`
	// Added is by how many seconds the last VM is READY later than in the same
	// burst without a fault, in the same repetition.
	Added *float64 `json:"added_s,omitempty"`
}

// sumBursts pools the VMs of all repetitions for times, and takes medians over
// repetitions of the rest.
func sumBursts(rows []burstRow) (out []burstSummary) {
	var plans []burstPlan
	groups := map[burstPlan][]burstRow{}
	for _, r := range rows {
		if _, known := groups[r.burstPlan]; !known {
			plans = append(plans, r.burstPlan)
		}
		groups[r.burstPlan] = append(groups[r.burstPlan], r)
	}
	ready := func(r burstRow) float64 { return r.ReadyMedian }
	egress := func(r burstRow) float64 { return float64(r.RegistryBytes) }
	for _, p := range plans {
		g := groups[p]
		sum := burstSummary{burstPlan: p, Reps: len(g)}
		var times []float64
		for _, r := range g {
			for _, vm := range r.PerVM {
				if vm.Error == "" && vm.VM != r.Struck {
					times = append(times, vm.Ready)
				}
			}
			sum.FailedVMs += r.FailedVMs
			sum.FailedReads += r.FailedReads
		}
		sum.ReadyMedian, sum.ReadyP95, sum.ReadyMax = median(times), percentile(times, 0.95), percentile(times, 1)
		sum.RegistryBytes = median(column(g, func(r burstRow) int64 { return r.RegistryBytes }))
		sum.PeerBytes = median(column(g, func(r burstRow) int64 { return r.PeerBytes }))
		sum.CPU = median(column(g, func(r burstRow) float64 { return r.CPU }))
		sum.Reparented = median(column(g, func(r burstRow) int64 { return int64(r.Reparented) }))
		one := p
		one.VMs, one.Kill = 1, kill{}
		sum.OverOne, sum.EgressOverOne = paired(g, groups[one], ready), paired(g, groups[one], egress)
		healthy := p
		healthy.Kill = kill{}
		if later := late(g, groups[healthy]); p.Kill != (kill{}) && len(later) > 0 {
			m := median(later)
			sum.Added = &m
		}
		if b := median(column(g, func(r burstRow) float64 { return r.Bound })); b > 0 {
			sum.OverBound = median(column(g, func(r burstRow) float64 { return r.ReadyMax / r.Bound }))
		}
		out = append(out, sum)
	}
	return out
}

// late gives by how much the last VM is later than in base, in each repetition
// that both have.
func late(rows, base []burstRow) (all []float64) {
	for _, r := range rows {
		for _, b := range base {
			if b.Rep == r.Rep {
				all = append(all, r.ReadyMax-b.ReadyMax)
			}
		}
	}
	return all
}

// paired is the median ratio of rows to base of the same repetition.
func paired(rows, base []burstRow, of func(burstRow) float64) float64 {
	var all []float64
	for _, r := range rows {
		for _, b := range base {
			if b.Rep == r.Rep && of(b) > 0 {
				all = append(all, of(r)/of(b))
			}
		}
	}
	return median(all)
}
