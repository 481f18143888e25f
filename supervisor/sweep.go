package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
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
// have a living owner, is never touched. What they have started is ended with them, and
// what is in the cgroups of these launches below our own. After [Adopt] those are ended too that this
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
	inside, err := endCgroups(ctx, launches)
	ended += inside
	if err != nil {
		return ended, fmt.Errorf("ending what runs left behind: %w", err)
	}
	given, err := endAdopted(ctx)
	if err != nil {
		return ended + given, fmt.Errorf("ending what runs left behind: %w", err)
	}
	return ended + given, nil
}

// SweepIdentity ends what is left of programs that an owner of a run has started and
// that has died since, and returns how many processes that were: the program itself, by
// pid and start, with its descendants; what carries its marker, with its descendants;
// what is in its cgroup. A process that has its pid by now is spared. Programs of another
// boot, or that are seen from another pid namespace, are left alone.
//
// One thing cannot be found: a process that left its session and environment, has lost
// its parents, and whose reaper was killed, where there is no cgroup.
func SweepIdentity(ctx context.Context, programs ...Identity) (ended int, err error) {
	boot, ns := bootID(), pidNamespace()
	programs = slices.DeleteFunc(slices.Clone(programs), func(id Identity) bool { return id.Boot != boot || id.PidNS != ns })
	if len(programs) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	if ended, err = sweepIdentities(ctx, programs); err != nil {
		return ended, fmt.Errorf("ending what runs left behind: %w", err)
	}
	return ended, nil
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
