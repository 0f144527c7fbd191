package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakMemory is the most memory that the process had resident so far, in bytes
// (VmHWM). Its children and the page cache do not count.
func (p *Proc) PeakMemory() (int64, error) {
	file := fmt.Sprintf("/proc/%d/status", p.Pid())
	status, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Trim(kb, " \tkB\n"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %s", file)
}
