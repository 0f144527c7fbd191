package rivals

func faasnet() System {
	return System{Name: "faasnet", Snapshotter: "faasnet", Tag: Converted, Lazy: true, Ours: true, Tree: true}
}

func faasnetWithoutTree() System {
	return System{Name: "faasnet-notree", Snapshotter: "faasnet", Tag: Converted, Lazy: true, Ours: true}
}
