// Package treepb is the generated protocol of the coordinator, from tree.proto.
package treepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative tree.proto
