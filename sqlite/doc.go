// Package sqlite is the default store: the journal of every run, its gates,
// leases, payloads and projections in one folder, with nothing to install.
//
// It implements [flow.Store]. Records are appended by one writer goroutine that
// commits whatever has queued up in one transaction, so that a lone step costs
// one sync and two hundred runs share theirs. Several processes may use a folder
// at once; each run is owned by one of them at a time.
//
// The package keeps records; it decides nothing about programs. It knows which
// kinds move the row of a run (lifecycle, ownership, gates) and no others: what
// further packages want to derive they register as a [Projector]. The memory is
// kept here too, in the same transactions; what it means is in package cortex.
//
// Start reading at [Store] in store.go, then writer.go (batches), tx.go (what is
// written in one) and project.go (what follows from a record).
package sqlite
