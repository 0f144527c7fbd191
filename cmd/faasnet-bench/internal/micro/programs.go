package micro

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walk runs find of the machine itself, whose pages are there already.
func walk(ctx context.Context, root string) (d Done, err error) {
	const find = "find"
	if err := exec.CommandContext(ctx, find, "/dev/null").Run(); err != nil {
		return d, err
	}
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, find, root, "-xdev", "-printf", `%y %s\n`)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := d.timed(cmd.Run); err != nil {
		return d, fmt.Errorf("%w: %s", err, complaint.String())
	}
	for line := range strings.Lines(out.String()) {
		d.Items++
		size, ok := strings.CutPrefix(line, "f ") // what a directory measures is the file system's own affair
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64)
		if err != nil {
			return d, err
		}
		d.Bytes += n
	}
	return d, nil
}

// started are programs of image b, which tell their version and end.
var started = [][]string{
	{"bash", "--version"}, {"cat", "--version"}, {"chmod", "--version"}, {"cp", "--version"}, {"cut", "--version"},
	{"date", "--version"}, {"df", "--version"}, {"du", "--version"}, {"env", "--version"}, {"find", "--version"}, {"grep", "--version"},
	{"gzip", "--version"}, {"head", "--version"}, {"id", "--version"}, {"ls", "--version"}, {"mv", "--version"}, {"openssl", "version"},
	{"perl", "-v"}, {"python3", "--version"}, {"readlink", "--version"}, {"rm", "--version"}, {"sed", "--version"}, {"sort", "--version"},
	{"stat", "--version"}, {"tail", "--version"}, {"tar", "--version"}, {"touch", "--version"}, {"tr", "--version"}, {"xargs", "--version"},
}

func programs(ctx context.Context, root string) (d Done, err error) {
	err = d.timed(func() error {
		for _, argv := range started {
			n, err := inside(ctx, root, filepath.Join("/usr/bin", argv[0]), argv[1:]...)
			d.Bytes += n
			d.Items++
			if err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

func imports(ctx context.Context, root string) (d Done, err error) {
	d.Items = 1
	err = d.timed(func() (err error) {
		d.Bytes, err = inside(ctx, root, "/usr/bin/python3", "-c",
			"import numpy, scipy.linalg, scipy.sparse, scipy.optimize, scipy.stats; print(numpy.__version__, scipy.__version__)")
		return err
	})
	return d, err
}

// inside runs a program with root as its root and returns how much it prints.
func inside(ctx context.Context, root, program string, args ...string) (int64, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &unix.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin", "PYTHONDONTWRITEBYTECODE=1"} // as in the image
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return int64(out.Len()), fmt.Errorf("%s: %w: %s", program, err, complaint.String())
	}
	return int64(out.Len()), nil
}
