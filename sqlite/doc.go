// Package sqlite is the default store: the journal of every run, its gates,
// leases, payloads and projections in one folder, with nothing to install.
//
// What must hold is written in package store; this package is the database under
// it. Ops are performed by one writer goroutine that commits whatever has queued up
// in one transaction, so that a lone step costs one sync and two hundred runs share
// theirs. Several processes may use a folder at once; each run is owned by one of
// them at a time.
//
// Start reading at [Open] in store.go, then writer.go (batches), files.go (what lies
// beside the database) and doctor.go (what can be wrong with them).
package sqlite
