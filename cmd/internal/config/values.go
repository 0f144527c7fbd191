package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span, written as in Go: "1.5s", "2m".
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(p []byte) error {
	v, err := time.ParseDuration(string(p))
	*d = Duration(v)
	return err
}

// MarshalText writes the value so that UnmarshalText reads it back.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string { return time.Duration(d).String() }

// Size is a number of bytes, written with a binary unit: "512MiB", "8GiB".
type Size int64

// units from the largest to the smallest.
var units = [...]struct {
	name string
	size Size
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a whole number and a unit. What the error is, invalid, the
// caller says.
func (s *Size) UnmarshalText(p []byte) error {
	text := string(p)
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if errors.Is(err, strconv.ErrRange) && n > 0 || n > math.MaxInt64/int64(u.size) {
			return fmt.Errorf("size %q is too large, the most is %dTiB", text, math.MaxInt64>>40)
		}
		if err != nil || n < 0 {
			break
		}
		*s = Size(n) * u.size
		return nil
	}
	return fmt.Errorf("size %q, want a whole number and one of TiB, GiB, MiB, KiB, B", text)
}

// MarshalText writes the value so that UnmarshalText reads it back.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	for _, u := range units {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
