// Package temporal has a Temporal server schedule the drives of runs, for several
// machines that share a store.
//
// Temporal decides where and when a run is driven, never what a step means. One workflow
// a run, whose id is the run's, repeats the activity drive until the run has ended: see
// workflow.go. Ids and outcomes are all that travels; records, payloads and the text of
// errors stay in the store. So whatever happens to a workflow (it is terminated, reset,
// cancelled, lost with its server) harms no run: [Engine.Schedule] starts another one.
package temporal
