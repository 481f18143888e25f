package supervisor

import (
	"os"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// staleAfter is the age at which the heartbeat of an owner we cannot look at
// counts as its last. Owners beat every 5 seconds.
const staleAfter = 30 * time.Second

// Self identifies this process as an owner of runs. kind is foreground, daemon,
// supervisor or engine; launch is the token that its processes carry.
func Self(kind, launch string) flow.Owner {
	host, _ := os.Hostname() // without a name, all owners here have none
	pid := os.Getpid()
	start, _ := startTime(pid)
	return flow.Owner{
		Kind:   kind,
		Host:   host,
		Boot:   bootID(),
		PidNS:  pidNamespace(),
		Pid:    pid,
		Start:  start,
		Launch: launch,
	}
}

// Alive reports whether an owner still lives, given its last heartbeat and the
// time by the store's clock.
//
// An owner in our own view (host, boot and pid namespace are ours) lives exactly
// as long as its process does, whatever its heartbeat: one that is suspended or
// swapped out still owns its run, and a stranger under its pid does not. No owner
// survives a reboot. Owners on other hosts and in other containers cannot be
// looked at; they are believed for 30 seconds after a heartbeat.
func Alive(o flow.Owner, heartbeat, now time.Time) bool {
	return aliveSeenFrom(Self("", ""), o, heartbeat, now)
}

func aliveSeenFrom(self, o flow.Owner, heartbeat, now time.Time) bool {
	beats := now.Sub(heartbeat) < staleAfter
	switch {
	case o.Host != self.Host:
		return beats
	case o.Boot != self.Boot:
		return false
	case o.PidNS != self.PidNS:
		return beats
	case o.Start == 0:
		// A system that tells no start times cannot tell a process from its
		// successor either: the pid must exist and the heart must beat.
		return beats && exists(o.Pid)
	}
	start, running := startTime(o.Pid)
	return running && start == o.Start
}
