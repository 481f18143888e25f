// Package tipstaff is the vocabulary of Tipstaff, a durable executor for AI
// agents: runs, their lifecycle, events, gates, decisions, bounds, and the one
// Service that every surface translates.
//
// It performs no I/O and imports nothing of ours. Start at [Service], then
// lifecycle.go and event.go.
package tipstaff
