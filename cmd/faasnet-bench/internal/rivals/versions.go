package rivals

// Versions are those of the systems that are built from their modules.
func Versions() map[string]string {
	return map[string]string{"stargz-snapshotter, as compared": stargzVersion, "soci-snapshotter": sociVersion}
}
