package obs

import (
	"runtime"
	"runtime/debug"
)

// Version is what -version prints: revision, or what Go recorded at the build
// when a program was built without one.
func Version(revision string) string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}

// VersionLine is the whole line that -version prints.
func VersionLine(program, revision string) string {
	return program + " " + Version(revision) + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
