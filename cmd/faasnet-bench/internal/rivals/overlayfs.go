package rivals

// overlayfs is a full pull by containerd itself, with its defaults.
func overlayfs() System {
	return System{Name: "overlayfs", Snapshotter: "overlayfs", Tag: Original}
}

// floor is what nobody can be faster than: the image is unpacked on each VM's
// disk already, and a start is only the making and the start of a container.
func floor() System {
	return System{Name: "floor", Snapshotter: "overlayfs", Tag: Original, Unpacked: true}
}
