package main

import (
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/faasnet/faasnet/cmd/faasnet-bench/internal/rivals"
)

// What a burst may ask of the machine.
const (
	// bitsPerCore is what one core carries from VM to VM, in bit/s: a machine
	// with two of them was measured to carry 1.3 Gbit/s.
	bitsPerCore = 650e6
	// memoryPerVM is what containerd, our daemon, shim and container take.
	memoryPerVM = 200 << 20
	mostVMs     = 128
)

// The systems of a burst.
const (
	withTree    = "faasnet"
	withoutTree = "faasnet-notree"
)

// system is the plan's system, with the image that the plan wants; check has
// found it.
func (p burstPlan) system() rivals.System {
	s, err := rivals.Find(p.System)
	if err != nil {
		panic(err)
	}
	if p.Recorded {
		s.Tag += rivals.Recorded
	}
	return s
}

// check refuses what this machine cannot carry: figures would be its own and
// not the system's.
func (p burstPlan) check() error {
	if _, err := rivals.Find(p.System); err != nil {
		return usage(err)
	}
	rate, err := parseRate(p.Rate)
	if err != nil {
		return err
	}
	registry, err := parseRate(p.RegistryRate)
	if err != nil {
		return err
	}
	if p.VMs < 1 || p.VMs > mostVMs {
		return usagef("%d VMs: not 1 to %d", p.VMs, mostVMs)
	}
	load := float64(p.VMs) * rate
	if p.System != withTree {
		load = min(load, registry)
	}
	if most := bitsPerCore * float64(runtime.NumCPU()); load > most {
		return usagef("%v at %s are %.0f Mbit/s, and %d cores carry %.0f: lower --rate or --vms", p, p.Rate, load/1e6, runtime.NumCPU(), most/1e6)
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return err
	}
	if most := int(info.Totalram * uint64(info.Unit) / memoryPerVM); p.VMs > most {
		return usagef("%d VMs: the memory is enough for %d", p.VMs, most)
	}
	return nil
}

var rates = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kmg]?)bit$`)

// parseRate reads a rate of tc in bit/s.
func parseRate(s string) (float64, error) {
	m := rates.FindStringSubmatch(s)
	if m == nil {
		return 0, usagef("rate %q: want a number and bit, kbit, mbit or gbit", s)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	return n * map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[m[2]], err
}
