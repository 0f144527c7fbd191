package fs

import (
	"time"

	"github.com/containerd/log"
	"golang.org/x/time/rate"
)

// logLimit lets one line pass in a while: a layer that cannot be read fails
// thousands of READs a second, and the metric counts them all.
type logLimit struct{ rate.Sometimes }

func newLogLimit() *logLimit {
	return &logLimit{rate.Sometimes{First: 3, Interval: 5 * time.Second}}
}

func (l *logLimit) warn(e *log.Entry, message string) {
	l.Do(func() { e.Warn(message) })
}
