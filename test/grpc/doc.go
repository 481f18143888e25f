// Package grpc holds no code, but tests: the daemon as it is released, called by
// programs that other people wrote (grpcurl, grpc-js, ghz), over a network that fails
// (toxiproxy), and killed in the middle of its work.
//
// make test-rpc installs those programs (scripts/rpc.sh) and runs everything here.
// Without TIPSTAFF_RPC in the environment what needs one of them is skipped, for a
// machine may have neither Node nor a network. What needs the daemon alone always runs.
//
// Start at daemon_test.go, then at the file that is named after a program. What the
// surface promises call by call is tried in test/rpc, in one process.
package grpc
