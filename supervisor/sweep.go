package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Every process of a run carries these in its environment, and so does what it
// starts, however it is started.
const (
	runMarker    = "TIPSTAFF_RUN_ID="
	launchMarker = "TIPSTAFF_LAUNCH="
	spawnMarker  = "TIPSTAFF_SPAWN=" // of what one spawned program starts
)

// matcher recognises processes by their environment.
type matcher func(environ []byte) bool

// Markers is what to add to the environment of every process of a run.
func Markers(run, launch string) []string {
	return []string{runMarker + run, launchMarker + launch}
}

// sweepLimit bounds a sweep. A process that SIGKILL has not ended by then hangs
// in the kernel, and waiting longer would not help.
const sweepLimit = 10 * time.Second

// leaveLimit is how long processes are waited for that end by themselves.
const leaveLimit = 500 * time.Millisecond

// Sweep ends every process that owners of runs left behind under these launches
// (tokens, each with its run), and returns how many there were. When it returns without error none is
// left: not one with its own session, not one that ignores signals, not one that
// was started meanwhile.
//
// Those are the processes of our user that carry both markers. Our own process is
// spared; a process of another run, or of another launch of this one, which may
// have a living owner, is never touched. After [Adopt] those are ended too that this
// process was given and that no program of ours can have started. Sweep while the owner of the launch
// lives and it ends, too: ask [Alive] first.
//
// On systems that do not show environments the error is errors.ErrUnsupported.
func Sweep(ctx context.Context, launches map[string]string) (ended int, err error) {
	for launch, run := range launches {
		if run == "" || launch == "" {
			return 0, errors.New("sweep needs both a run and a launch")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	if ended, err = endMarked(ctx, byLaunch(launches)); err != nil {
		return ended, fmt.Errorf("ending what runs left behind: %w", err)
	}
	given, err := endAdopted(ctx)
	if err != nil {
		return ended + given, fmt.Errorf("ending what runs left behind: %w", err)
	}
	return ended + given, nil
}

// endMarked ends the processes that match, and those that are started meanwhile.
func endMarked(ctx context.Context, match matcher) (ended int, err error) {
	for {
		found, err := findMarked(match)
		if err != nil {
			return ended, err
		}
		gone, err := endAll(ctx, found)
		ended += gone
		if err == nil && gone > 0 {
			err = ctx.Err() // they are born faster than they end
		}
		if err != nil || gone == 0 {
			return ended, err
		}
	}
}

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
