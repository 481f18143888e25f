// Package simtest tries the engine under every schedule it can think of.
//
// A [Case] is a program and a world. [Run] drives it on virtual time over a log, in
// memory or of a store, and one list of choices decides everything else: which branch
// gets the drive's lock next, when an activity starts and answers, when a commit is
// durable and when its owner hears of it, when people decide, cancel and correct,
// and when the process dies, is stopped or is replaced. Nothing runs that the
// scheduler does not hold, so the same choices give the same journal; the goroutines
// of a store may change the order in which others arrive.
//
// After each death and each park the journal must replay; at the end it must
// conform, replay to the outcome that was recorded, have used what a ledger of the
// simulator's own says, and, where the program has but one end, have the value, the events
// and the effects of the undisturbed schedule. A program in which somebody renames or removes
// a step between two drives must be refused before it does anything. A process may park only
// when it is at rest and has lingered as long as it was to.
//
// Choice 0 is always the harmless one. A failing schedule is shrunk by making its
// choices fewer and smaller, for the program and for the schedule alike.
//
// Start reading at sim.go; world.go has the activities, hands.go what happens from
// outside, check.go and ledger.go what must hold, program.go the generator, edit.go how programs are
// changed, ground.go the logs.
package simtest
