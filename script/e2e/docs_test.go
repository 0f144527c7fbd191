package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/faasnet/faasnet/script/lab"
)

var histogramPart = regexp.MustCompile(`_(bucket|sum|count)$`)

// docs/operations.md explains every metric that the daemon has.
func TestMetricsAreDocumented(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	img := v.made("shapes", shapes()...)
	v.check(v.Pull(t.Context(), "faasnet", img.lazy))
	v.check(v.RunReady(t.Context(), "faasnet", img.lazy))
	docs := string(must(os.ReadFile("../../docs/operations.md"))(t))
	var missing []string
	for series := range must(v.daemon.Metrics(t.Context()))(t) {
		name, _, _ := strings.Cut(series, "{")
		name = histogramPart.ReplaceAllString(name, "")
		if strings.HasPrefix(name, "faasnet_") && !strings.Contains(docs, "`"+name+"`") && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("docs/operations.md does not explain %v", missing)
	}
}

// The configuration in docs/containerd.md is the one that the tests run with.
func TestSampleConfiguration(t *testing.T) {
	v := newVM(t, lab.Current, "", lab.DaemonConfig{})
	docs := string(must(os.ReadFile("../../docs/containerd.md"))(t))
	config := must(v.host.Configuration())(t)
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "[proxy_plugins") || strings.Contains(line, "unpack_config"):
		case slices.Contains([]string{"type", "enable_remote_snapshot_annotations", "platform", "snapshotter"}, name) && value != "":
		default:
			continue
		}
		if !strings.Contains(docs, line) {
			t.Errorf("docs/containerd.md lacks %q", line)
		}
	}
}
