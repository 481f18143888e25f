// Package supervisor knows the processes of runs: which one this is, how one is
// started so that nothing of it is left, whether the owner of a run still lives,
// and how to end what a dead owner left behind.
//
// A process is known by its host, boot, pid namespace, pid and start time. The system
// reuses pids, so a bare pid identifies nothing: no code here trusts or signals one.
//
// It drives no run and writes no record. Start at [Self] and [Alive], then
// [Spawn] and [Sweep].
package supervisor
