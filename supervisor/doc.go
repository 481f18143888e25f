// Package supervisor knows the processes of runs: which one this is, how one is
// started so that nothing of it is left, whether the owner of a run still lives,
// and how to end what a dead owner left behind.
//
// A process is known by its host, boot, pid namespace, pid and start time. The system
// reuses pids, so a bare pid identifies nothing: no code here trusts or signals one.
//
// It is the one runner of processes: nobody else starts or signals any. Programs that
// are not trusted to end what they start have a reaper, see package reap.
//
// It drives no run and writes no record. Start at [Self] and [Alive], then [Spawn] and
// [Output], [Sweep] and [Membership]. [Launcher] starts the processes that drive a run of
// their own.
package supervisor
