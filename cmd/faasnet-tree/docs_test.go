package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// keys maps every key of the configuration to its default as a file would say
// it.
func keys(prefix string, v reflect.Value, all map[string]string) {
	for i := range v.NumField() {
		key, field := prefix+v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		switch x := field.Interface().(type) {
		case span:
			all[key] = fmt.Sprintf("%q", x.String())
		case string:
			all[key] = fmt.Sprintf("%q", x)
		default:
			if field.Kind() == reflect.Struct {
				keys(key+".", field, all)
				continue
			}
			all[key] = fmt.Sprint(x)
		}
	}
}

// TestDocs holds docs/configuration.md to the code: the same keys and flags,
// with the same defaults, each once.
func TestDocs(t *testing.T) {
	want := map[string]string{}
	keys("", reflect.ValueOf(*defaults()), want)
	_, flags := serveFlags()
	p, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (?:—|`--([a-z-]+)`) \\| `([a-z_.]+)` \\| `([^`]*)` \\| .+ \\|$").FindAllStringSubmatch(string(p), -1) {
		flag, key, value := row[1], row[2], row[3]
		if def, ok := want[key]; !ok {
			t.Errorf("%s is documented twice, or does not exist", key)
		} else if def != value {
			t.Errorf("%s: documented default %s, want %s", key, value, def)
		}
		delete(want, key)
		if flag == "" {
			continue
		}
		if flags[flag] == nil {
			t.Errorf("--%s is documented twice, or does not exist", flag)
		}
		delete(flags, flag)
	}
	if len(want) > 0 || len(flags) > 0 {
		t.Errorf("not documented: keys %v, flags %v", want, flags)
	}
}

// TestMetricsAreDocumented holds docs/coordinator.md to what there is.
func TestMetricsAreDocumented(t *testing.T) {
	p, err := os.ReadFile("../../docs/coordinator.md")
	if err != nil {
		t.Fatal(err)
	}
	s := defaults()
	s.KeyFile, s.Etcd.Endpoints, s.Etcd.Advertise = t.TempDir()+"/k", []string{"http://127.0.0.1:1"}, "10.0.0.1:1"
	r := prometheus.NewRegistry()
	if _, err := build(s, r); err != nil {
		t.Fatal(err)
	}
	described := make(chan *prometheus.Desc, 1000)
	r.Describe(described)
	close(described)
	names := map[string]bool{}
	for d := range described {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		names[name] = true
		if !strings.Contains(string(p), "`"+name+"`") {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, m := range regexp.MustCompile("`(faasnet_tree_[a-z_]+)`").FindAllStringSubmatch(string(p), -1) {
		if !names[m[1]] {
			t.Errorf("documented metric %s does not exist", m[1])
		}
	}
}
