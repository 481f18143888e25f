package flow

import (
	"strconv"
	"strings"
	"time"
)

// LaunchTime is how long a process that was started for a run, and of which nothing is
// known yet, may take to take the lease.
const LaunchTime = 10 * time.Second

// Launch is the process that was last started to drive a run. It is kept in the run's
// row, not in its records.
type Launch struct {
	Token       string      `json:"launch"` // that its processes carry, and by which it takes the lease, once
	Argv        []string    `json:"argv"`
	At          time.Time   `json:"at"`
	Process     *Owner      `json:"process,omitempty"` // nil: it is not known yet
	Containment string      `json:"containment,omitempty"`
	Epoch       int64       `json:"epoch,omitempty"` // of the lease that it took last; 0: it took none
	Exit        *LaunchExit `json:"exit,omitempty"`  // nil: it has not ended, or nobody saw how
	// Over: it was found dead, and its run is recorded as interrupted.
	Over bool `json:"over,omitempty"`
	// Yes and DraftOnly are what it was started with: see the presence of a person.
	Yes       bool `json:"yes,omitempty"`
	DraftOnly bool `json:"draft_only,omitempty"`

	// What the store is to see to when it is stored; they are not kept.
	Max      int  `json:"-"` // how many runs may have a process of their own (ErrCapacity)
	Checkout bool `json:"-"` // no other run may work in the checkout of its project (ErrProjectBusy)
}

// LaunchExit is how a launched process ended.
type LaunchExit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"` // "SIGKILL"; "": it ended by itself
	Error  string `json:"error,omitempty"`  // what went wrong; "": nothing, or nobody knows
}

// Reason is how records tell an exit that settled nothing.
func (e LaunchExit) Reason() string {
	if e.Signal != "" {
		return "signal:" + strings.TrimPrefix(e.Signal, "SIG")
	}
	return "exited:" + strconv.Itoa(e.Code)
}

// Lives reports whether the process lives, or was started just now and is not known yet.
// heartbeat is that of the run, for processes that cannot be looked at.
func (l *Launch) Lives(alive func(Owner, time.Time) bool, heartbeat, now time.Time) bool {
	switch {
	case l == nil || l.Exit != nil || l.Over:
		return false
	case l.Process == nil:
		return now.Sub(l.At) < LaunchTime
	}
	if heartbeat.Before(l.At) {
		heartbeat = l.At
	}
	return alive(*l.Process, heartbeat)
}

// Pending reports whether it lives and is yet to take the lease.
func (l *Launch) Pending(alive func(Owner, time.Time) bool, now time.Time) bool {
	return l != nil && l.Epoch == 0 && l.Lives(alive, time.Time{}, now)
}

// UnderWay is the error of a request of which a user has one at a time, while the run of the
// one before is driven or waits for its turn.
type UnderWay struct{ Run string }

func (e *UnderWay) Error() string { return "flow: the request before has not ended: run " + e.Run }

// KnownKey is the error of a request whose key has made a run before.
type KnownKey struct {
	Run    string
	Digest string // of the request that made it
}

func (e *KnownKey) Error() string { return "flow: the key of the request has made run " + e.Run }
