// Package pipeline runs graphs of agents that may loop.
//
// A pipeline is a document: agents, each with a way to run, routing between them
// and bounds. Sequential, parallel and looping execution all come from the
// document; there is no mode to choose. [Execute] is deterministic over a
// flow.Context: it decides which stages start, merges what they bring, routes,
// counts and ends, and is handed a function that performs one attempt of one
// stage. So resuming, replaying, verifying and forking a pipeline need nothing of
// their own.
//
// The package knows no domain: no stage name, key or value has a meaning beyond
// the reserved ones. It starts no goroutine, reads no clock and performs no I/O.
//
// Start at [Pipeline] and [Envelope], then execute.go.
package pipeline
