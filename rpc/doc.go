// Package rpc is the gRPC surface: it lets other programs hold envelopes, run
// pipelines over them, watch, decide and serve agents.
//
// It translates and holds no logic of its own: every call becomes calls of
// tipstaff.Service and, for agent hosts, of tipstaff.Hosts; messages are those of
// package pb. Who may do what the Service says, by the Caller that this package finds
// by the bearer token. No state of a run is kept here: a stream reads the journal by
// cursor at its reader's pace, so that nobody can hold up a run by watching it.
//
// Start at [New], then execute.go and stream.go.
package rpc
