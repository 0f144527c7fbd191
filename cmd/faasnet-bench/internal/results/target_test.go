package results

import (
	"fmt"
	"testing"
)

// Trees of one form are compared with those of the other over the same conversion.
func TestStripesOfLikeConversions(t *testing.T) {
	row := func(stripes int, seconds float64, recorded bool) Row {
		return rowOf(t, fmt.Sprintf(`{"system": "faasnet", "vms": 8, "stripes": %d, "ready_max_s": %v, "recorded": %v}`, stripes, seconds, recorded))
	}
	in := Input{Bursts: []Bursts{{Image: "c", Rate: "50mbit", Full: true, Rows: []Row{row(1, 10, false), row(2, 5, false), row(1, 8, true), row(2, 6, true)}}}}
	var got string
	for _, j := range stripes(in) {
		got += fmt.Sprintf("%v\n", j)
	}
	const want = `{real, 8 VMs, image c, 50 Mbit/s 0.50x true}
{real, 8 VMs, image c, 50 Mbit/s 0.75x false}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
