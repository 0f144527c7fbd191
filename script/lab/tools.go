package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Tools says where the programs are. Those of Debian packages are found on
// the path.
type Tools struct {
	// Dir holds containerd, ctr and containerd-shim-runc-v2 of the release
	// that the lab runs by default.
	Dir string
	// Product holds containerd-faasnet-grpc, faasnet and faasnet-tree.
	Product string
}

// Containerd programs that Tools.Dir holds, and what is found on the path.
var (
	inDir   = []string{"containerd", "ctr", "containerd-shim-runc-v2"}
	onPath  = []string{"runc", "docker-registry", "ip", "ss", "tc", "nsenter", "unshare"}
	product = []string{"containerd-faasnet-grpc", "faasnet", "faasnet-tree"}
)

// FindTools looks for the programs of containerd in $FAASNET_TOOLS, in
// .tools/bin of the source tree that the caller runs in and beside the
// caller's own program; for those of the product in $FAASNET_BIN, in bin of
// the source tree and beside the caller's program.
func FindTools() (Tools, error) {
	var t Tools
	var err error
	if t.Dir, err = find(inDir, places("FAASNET_TOOLS", ".tools/bin")); err != nil {
		return t, fmt.Errorf("%w (`make tools` builds them)", err)
	}
	if t.Product, err = find(product, places("FAASNET_BIN", "bin")); err != nil {
		return t, fmt.Errorf("%w (`make build` builds them)", err)
	}
	for _, name := range onPath {
		if _, err := exec.LookPath(name); err != nil {
			return t, fmt.Errorf("%w (`make deps` installs it)", err)
		}
	}
	return t, nil
}

func places(env, inTree string) (dirs []string) {
	if dir := os.Getenv(env); dir != "" {
		return []string{dir}
	}
	if root, ok := SourceTree(); ok {
		dirs = append(dirs, filepath.Join(root, inTree))
	}
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	return dirs
}

func find(names, dirs []string) (string, error) {
	var missing error
next:
	for _, dir := range dirs {
		for _, name := range names {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
				missing = fmt.Errorf("%s is in none of %v: %w", name, dirs, err)
				continue next
			}
		}
		return dir, nil
	}
	return "", missing
}

// SourceTree returns the root of the source tree that the caller runs in.
func SourceTree() (root string, ok bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
	}
	return "", false
}
