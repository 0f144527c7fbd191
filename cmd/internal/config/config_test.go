package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/pelletier/go-toml/v2"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`
background_fetch = false
[store]
max_bytes = "512MiB"
[fetch]
deadline = "1.5s"
[registry]
plain_http = ["registry.local:5000"]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.BackgroundFetch = false
	want.Store.MaxBytes = 512 << 20
	want.Fetch.Deadline = Duration(1500 * time.Millisecond)
	want.Registry.PlainHTTP = []string{"registry.local:5000"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func TestDefaultIsValidAndReadsBack(t *testing.T) {
	p, err := toml.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Parse(p); err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("%s\ngives %+v, %v", p, c, err)
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("v", 256)
	for text, want := range map[string]string{
		"backgroun_fetch = true":                              `line 1: unknown key "backgroun_fetch"`,
		"[store]\nmax_byte = \"1GiB\"":                        `line 2: unknown key "store.max_byte"`,
		"[store]\nmax_bytes = \"lots\"":                       `size "lots", want a whole number`,
		"[store]\nmax_bytes = \"1.5GiB\"":                     `size "1.5GiB", want a whole number`,
		"[store]\nmax_bytes = \"-1GiB\"":                      `size "-1GiB", want a whole number`,
		"[store]\nmax_bytes = \"99999999999GiB\"":             `size "99999999999GiB" is too large, the most is 8388607TiB`,
		"[store]\nmax_flat_bytes = \"10000000000000000000B\"": `size "10000000000000000000B" is too large`,
		"[store]\nmax_bytes = \"0B\"":                         "store.max_bytes is not above 0",
		"[fetch]\ndeadline = \"soon\"":                        "soon",
		"[fetch]\ndeadline = \"-1s\"":                         "fetch.deadline is not above 0",
		"[fuse]\nread_timeout = \"1s\"":                       "shorter than fetch.deadline",
		"[fuse]\nmax_background = 12":                         "max_background 12",
		"log_format = \"xml\"":                                `log_format "xml"`,
		"background_fetch = 1":                                "line 1",
		"metrics_address = \"256.1.1.1:99999\"":               `metrics_address "256.1.1.1:99999"`,
		"metrics_address = \"unix://relative\"":               `metrics_address "unix://relative"`,
		"debug_address = \"localhost\"":                       `debug_address "localhost"`,
		"[registry]\nplain_http = [\"http://r\"]":             `registry.plain_http: "http://r"`,
		"[registry]\nskip_verify = [\"\"]":                    `registry.skip_verify: ""`,
		"store":                                               "line 1",
		"[tree]\nstrict = true":                               "tree.strict, but not tree.enabled",
		"[tree]\ncoordinators = [\":7400\"]":                  `tree.coordinators: ":7400"`,
		"[tree]\ncoordinators = [\"unix:///c:1\"]":            `tree.coordinators: "unix:///c:1"`,
		"[tree]\ncoordinators = [\"c\"]":                      `tree.coordinators: "c"`,
		"[peer]\naddress = \":0\"":                            `peer.address: ":0"`,
		"[peer]\naddress = \"unix:///run/p:1\"":               `peer.address: "unix:///run/p:1"`,
		"[tree]\nvm = \"" + long + "\"":                       "tree.vm is longer than 255 bytes",
		"[tree]\ncertificate = \"c\"\nca = \"a\"":             "tree.certificate and tree.key",
		"[tree]\ncertificate = \"c\"\nkey = \"k\"":            "need tree.ca",
	} {
		if _, err := Parse([]byte(text)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if strings.Count(err.Error(), "invalid argument") != strings.Count(err.Error(), "\n")+1 {
			t.Errorf("%q: %v says more than once a line what it is", text, err)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	if c, err := Load(path, true); err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("absent default file: %+v, %v", c, err)
	}
	if _, err := Load(path, false); !os.IsNotExist(err) {
		t.Errorf("absent file that was asked for: %v", err)
	}
	if err := os.WriteFile(path, []byte("x = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, true); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("broken file: %v, want its name", err)
	}
}
