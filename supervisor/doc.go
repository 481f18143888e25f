// Package supervisor knows the processes of runs: which one this is, how one is
// started so that nothing of it is left, whether the owner of a run still lives,
// and how to end what a dead owner left behind.
//
// A process is known by its host, boot, pid namespace, pid and start time. A bare
// pid names nobody, for the system gives it away again: nothing here trusts one,
// and nothing here signals one.
//
// It drives no run and writes no record. Start at [Self] and [Alive], then
// [Spawn] and [Sweep].
package supervisor
