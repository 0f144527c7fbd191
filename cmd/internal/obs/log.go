package obs

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// SetUpLog sets level and format of the log of this process. Only programs call it.
func SetUpLog(level, format string) error {
	if err := log.SetLevel(level); err != nil {
		return fmt.Errorf("log level %q: %w: %w", level, err, errdefs.ErrInvalidArgument)
	}
	if err := log.SetFormat(log.OutputFormat(format)); err != nil {
		return fmt.Errorf("log format %q: %w: %w", format, err, errdefs.ErrInvalidArgument)
	}
	return nil
}
