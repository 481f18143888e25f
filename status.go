package tipstaff

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Words of [Run.Status] for a run that has not ended. One that has ended, and a
// draft that nobody launched, has the name of its state.
const (
	StatusRunning          = "running"
	StatusQueued           = "queued"
	StatusAwaitingHandoff  = "awaiting_phase_handoff"
	StatusAwaitingDelivery = "awaiting_delivery"
	StatusAwaitingDecision = "awaiting_decision"
	StatusAwaitingResume   = "awaiting_resume"
	StatusInterrupted      = "interrupted"
)

// Origins of runs: driven by a process of their own, by a server, and by a server that an
// engine has told to.
const (
	OriginSupervisor = "supervisor"
	OriginDaemon     = "daemon"
	OriginEngine     = "engine"
)

// Statuses are all words of [Run.Status].
func Statuses() []string {
	return []string{StatusRunning, StatusQueued, StatusAwaitingDecision, StatusAwaitingHandoff, StatusAwaitingDelivery, StatusAwaitingResume, StatusInterrupted,
		string(Drafting), string(Completed), string(Failed), string(Cancelled)}
}

// Facts are what a store and a supervisor know of a run beyond its records.
type Facts struct {
	ID    ID
	Name  string // of the program
	Steps int    // of the program: leaves of a plan, stages of a pipeline; 0: not known
	State State  // as stored; "" is the fold's
	Head  string // hash of the last record
	Owner *Owner // who holds the lease, and whether it lives; nil: nobody
	// Launching: a process was started for the run and has not taken the lease,
	// and either still lives or was started just now. Launched: one was, whatever became
	// of it.
	Launching, Launched bool
	Woken               bool // it is at rest, and a run that it waits for has ended since
	// Foreign: the run was made by another workspace, whose keys it has published.
	Foreign bool
	Queued  *Queued // it waits for its turn in the queue of a daemon that lives; nil: it does not
}

// Status is a run as surfaces show it, at a moment. open are its undecided
// gates; of those, the ones past their expiry count as denied. It shares nothing with
// the fold, which may serve many who ask.
func Status(facts Facts, fold *Fold, open []Gate, now time.Time) Run {
	state := cmp.Or(facts.State, fold.State)
	waitsOn := undecided(open, now)
	condition, status := conditionOf(state, facts, fold.Owned, waitsOn)

	program := fold.Program
	program.Name = facts.Name
	control, reason := controlOf(fold.Origin, facts.Foreign)
	lineage := copied(fold.Lineage)
	if lineage != nil {
		lineage.Children = slices.Clone(lineage.Children)
	}
	run := Run{
		ID:            facts.ID,
		Title:         fold.Title,
		User:          fold.User,
		State:         state,
		Condition:     condition,
		Status:        status,
		Outcome:       fold.Outcome,
		Program:       program,
		Stage:         fold.Stage,
		Step:          fold.Step,
		CreatedAt:     fold.Created,
		UpdatedAt:     fold.At,
		EndedAt:       fold.Ended,
		HeadSeq:       fold.Seq,
		Head:          facts.Head,
		Origin:        fold.Origin,
		Owner:         facts.Owner,
		Queued:        facts.Queued,
		OpenGates:     waitsOn,
		DecisionState: decisionState(fold, waitsOn),
		Bounds:        fold.bounds(condition, now),
		Error:         copied(fold.Failure),
		Lineage:       lineage,
		Lifecycle:     fold.Lifecycle,
		Pipeline:      copied(fold.Pipeline),
		Steps:         fold.steps(facts.Steps),
		Control:       control,
		ControlReason: reason,
		Said:          fold.Said || fold.Program.Kind == ProgramTurn,
	}
	if len(fold.Life.Segments) > 0 || condition == Interrupted {
		run.Life = fold.life(condition, now)
	}
	fold.show(&run, fold.Owned, facts.Woken || len(waitsOn) < len(open))
	return run
}

// controlOf says whether a run may be driven from elsewhere: what a person or a daemon
// drives in a process of its own may not, nor what another workspace has made.
func controlOf(origin string, foreign bool) (control, reason string) {
	switch {
	case origin == "daemon":
		return InspectAlone, DaemonRun
	case origin != OriginSupervisor && origin != OriginEngine:
		return InspectAlone, ForegroundRun
	case foreign:
		return InspectAlone, OtherWorkspace
	}
	return Controllable, ""
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// conditionOf derives the two words that are never stored. The first case that
// holds decides.
func conditionOf(state State, facts Facts, owned Kind, open []Gate) (Condition, string) {
	launched := owned != "" || facts.Launching || facts.Launched || facts.Owner != nil
	switch {
	case state.Terminal(), state == Drafting && !launched:
		return "", string(state)
	case facts.Owner != nil && facts.Owner.Alive, facts.Launching:
		return Running, StatusRunning
	case facts.Queued != nil:
		return Waiting, StatusQueued
	case asks(open, Handoff):
		return Waiting, StatusAwaitingHandoff
	case asks(open, Delivery):
		return Waiting, StatusAwaitingDelivery
	case len(open) > 0:
		return Waiting, StatusAwaitingDecision
	case !launched, owned == KindRunParked, owned == KindRunQueued: // by a daemon that is gone
		return Waiting, StatusAwaitingResume
	}
	return Interrupted, StatusInterrupted
}

func asks(open []Gate, kind GateKind) bool {
	return slices.ContainsFunc(open, func(g Gate) bool { return g.Kind == kind })
}

// undecided leaves out gates past their expiry, whether or not somebody has
// recorded that yet. It is never nil: surfaces show an empty list.
func undecided(open []Gate, now time.Time) []Gate {
	gates := make([]Gate, 0, len(open))
	for _, g := range open {
		if !g.Expired(now) {
			gates = append(gates, g)
		}
	}
	return gates
}

func decisionState(fold *Fold, open []Gate) string {
	switch {
	case len(open) > 0:
		return "missing"
	case fold.Opened == 0:
		return "none"
	}
	return "recorded"
}

// bounds shows every bound that is limited, used or held.
func (f *Fold) bounds(c Condition, now time.Time) BoundsStatus {
	used := f.used(c, now)
	shown := make(BoundsStatus, len(used)+len(f.Ledger.Limit))
	show := func(name string) {
		if _, already := shown[name]; already {
			return
		}
		b := BoundStatus{Used: used[name], Held: f.Ledger.Held[name], Reserved: f.Ledger.Reserved(name), Lost: f.Ledger.Lost[name]}
		b.Limit, b.Limited = f.Ledger.Limit[name]
		shown[name] = b
	}
	for name := range f.Ledger.Limit {
		show(name)
	}
	for name := range used {
		show(name)
	}
	for name := range f.Ledger.Held {
		show(name)
	}
	for _, reserve := range f.Ledger.Open {
		for name := range reserve {
			show(name)
		}
	}
	return shown
}

// used is the ledger's, and what is not in the ledger: time is measured, agent hops and
// iterations of a plan are counted as it walks, and a pipeline tells its round.
func (f *Fold) used(c Condition, now time.Time) flow.Use {
	used := make(flow.Use, len(f.Ledger.Used)+4) // and what is added below
	maps.Copy(used, f.Ledger.Used)
	until := f.DriveTo
	if c == Running && now.After(until) {
		until = now
	}
	used[BoundWallTime] = f.WallMs
	if !f.DriveFrom.IsZero() {
		used[BoundWallTime] = saturated(f.WallMs, max(until.Sub(f.DriveFrom).Milliseconds(), 0))
	}
	if f.Program.Kind == "plan" {
		used[BoundAgentHops] = int64(f.Steps[StepStarted])
		used[BoundIterations] = int64(f.Followups)
	}
	if f.Pipeline != nil {
		used[BoundStages] = max(1, f.Pipeline.StageNumber)
	}
	return used
}
