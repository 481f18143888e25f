//go:build !race

package grpc

const race = false
