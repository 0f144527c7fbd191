package block

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
)

// Level says how hard an Encoder tries. The zero value is LevelDefault.
type Level int

// Levels, by the names that ParseLevel takes.
const (
	LevelDefault Level = iota
	LevelFastest
	LevelBetter
	LevelBest
)

var levels = [...]struct {
	name string
	zstd zstd.EncoderLevel
}{
	LevelDefault: {"default", zstd.SpeedDefault},
	LevelFastest: {"fastest", zstd.SpeedFastest},
	LevelBetter:  {"better", zstd.SpeedBetterCompression},
	LevelBest:    {"best", zstd.SpeedBestCompression},
}

// ParseLevel returns the level named fastest, default, better or best. The
// error matches errdefs.ErrInvalidArgument.
func ParseLevel(name string) (Level, error) {
	for l, v := range levels {
		if v.name == name {
			return Level(l), nil
		}
	}
	return 0, fmt.Errorf("compression level %q: want fastest, default, better or best: %w", name, errdefs.ErrInvalidArgument)
}

// String returns the name that ParseLevel takes.
func (l Level) String() string {
	if !l.valid() {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levels[l].name
}

func (l Level) valid() bool { return l >= 0 && int(l) < len(levels) }
