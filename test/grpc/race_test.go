//go:build race

package grpc

// race says that the command is built with the race detector, as these tests are.
const race = true
