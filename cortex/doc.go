// Package cortex is the executor's memory: what happened in earlier runs, what
// people told it, and how much each of that has helped since.
//
// There is one log for a whole store, append-only and hash-chained, with four
// kinds of records. Everything else (which items there are, how often they were
// cited, the weights by which they are ranked) is derived from it, by the code
// in this package alone. So the derived state can be thrown away and built
// again, and a log that was tampered with is found.
//
// The package is pure: it reads no clock, no file and no database. Stores keep
// the bytes and the derived rows; they call Settle in the transaction that ends
// a run. All arithmetic is on whole numbers, so that two machines agree to the
// last digit.
//
// Start at record.go (the log), then settle.go (what the end of a run changes)
// and rebuild.go (the same, from the beginning).
package cortex
