package config

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"testing"
)

// keys maps every key to its default as the file would say it.
func keys(prefix string, v reflect.Value, all map[string]string) {
	for i := range v.NumField() {
		key, field := prefix+v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		switch x := field.Interface().(type) {
		case encoding.TextMarshaler:
			p, err := x.MarshalText()
			all[key] = fmt.Sprintf("%q", p)
			if err != nil {
				all[key] = err.Error()
			}
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

// TestDocs holds docs/configuration.md to the code: the same keys, with the same
// defaults, each once.
func TestDocs(t *testing.T) {
	want := map[string]string{}
	keys("", reflect.ValueOf(*Default()), want)
	p, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^`]*)` \\| .+ \\|$").FindAllStringSubmatch(string(p), -1) {
		key, value := row[1], row[2]
		if seen[key] {
			t.Errorf("%s is documented twice", key)
		}
		seen[key] = true
		if def, ok := want[key]; !ok {
			t.Errorf("%s is documented but does not exist", key)
		} else if def != value {
			t.Errorf("%s: documented default %s, want %s", key, value, def)
		}
	}
	for key, def := range want {
		if !seen[key] {
			t.Errorf("%s, default %s, is not documented", key, def)
		}
	}
}
