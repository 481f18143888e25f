package tipstaff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// foldRules is the version of what a fold adds up. One that was stored by other rules is
// made anew from the records.
const foldRules = 4

// ReadFold is a fold as it was stored. Where it cannot be used it is one of no records.
func ReadFold(stored []byte) *Fold {
	f := new(Fold)
	if len(stored) == 0 || json.Unmarshal(stored, f) != nil || f.Rules != foldRules {
		return new(Fold)
	}
	return f
}

// FoldRest is what the fold tells of a run beside its status: why it rests, what was left
// open, and what it has brought forth. With it nobody has to read the records to say what
// can be done with a run next.
type FoldRest struct {
	Interrupted string    `json:"interrupted,omitempty"` // why, if that is what Owned says
	WakeAt      time.Time `json:"wake_at,omitzero"`      // of a run that is parked
	News        bool      `json:"news,omitempty"`        // since Owned something was decided, or asked of it

	// Sent are the paths of calls of class once that were sent and have no outcome.
	Sent map[string]bool `json:"sent,omitempty"`
	// Workers are the invocations that have not ended, by their ids.
	Workers map[string]RunWorker `json:"workers,omitempty"`

	// Delivery is where that stands, without its lists; nil: nothing is delivered.
	// WorktreeSeq is the record that tells of the worktree.
	Delivery    *DeliveryState `json:"delivery,omitempty"`
	WorktreeSeq int64          `json:"worktree_seq,omitempty"`

	// Changed is what has changed in the worktree, as it was recorded last.
	Changed *RecordedChange `json:"changed,omitempty"`

	Files    []EvidenceFile `json:"files,omitempty"` // the last of them
	Warnings []Problem      `json:"warnings,omitempty"`

	// Said: somebody has said something in the run, or in what it inherits.
	Said bool `json:"said,omitempty"`

	// Done is how many steps of the program in force have ended well: leaves of a plan, or of
	// a pipeline that has ended its stages. DoneStages are those of one that goes on, with the
	// gate that one asks at before it is left; "": none.
	Done       int               `json:"done,omitempty"`
	DoneStages map[string]string `json:"done_stages,omitempty"`

	// Life is open where the run is: [Status] says how long that has lasted.
	Life Life `json:"life,omitzero"`
}

// How many files and warnings a fold keeps.
const (
	foldFiles    = 50
	foldWarnings = 20
)

// applyRest follows what is not in the lifecycle, and not in the ledger.
func (f *Fold) applyRest(e *Event) {
	switch e.Kind {
	case KindIntentDraft:
		if files := BodyOf[IntentDraft](e).Files; files != nil && files.Mode == "worktree" {
			f.delivery()
		}
	case KindRunQueued, KindRunStarted, KindRunResumed, KindRunParked, KindRunInterrupted:
		f.Interrupted, f.WakeAt, f.News, f.Workers = "", time.Time{}, false, nil
		switch e.Kind {
		case KindRunInterrupted:
			f.Interrupted = BodyOf[RunInterrupted](e).Reason
		case KindRunParked:
			f.WakeAt = BodyOf[RunParked](e).WakeAt
		}
	case KindRunCancelRequested, KindRunCorrectionRequested, KindPolicyGateResolve, KindIntentAnswer, KindIntentAccept:
		f.News = true
	case KindRunContinued: // a segment begins while no call is under way
		if f.Sent = nil; f.Pipeline == nil { // another revision, which says anew what is done of it
			f.Done = 0
		}
	case KindPlanStep, KindStageStarted, KindStageFinished:
		f.applyDone(e)
	case KindAgentStepStarted, KindAgentMessage, KindAgentError, KindWorkerEvent: // those of placeOf
		f.Said = true
	case KindWorkerStarted:
		b := BodyOf[WorkerStarted](e)
		put(&f.Workers, b.Invocation, RunWorker{Worker: b.Worker, Session: b.Session, Invocation: b.Invocation, Pid: b.Identity.Pid, Task: b.Task, Step: leafOf(e.Path)})
	case KindWorkerEnded:
		delete(f.Workers, BodyOf[WorkerEnded](e).Invocation)
	}
	f.applyDelivery(e)
	if file, is := fileOf(e); is && !slices.Contains(f.Files, file) {
		f.Files = append(f.Files, file)
		f.Files = f.Files[max(0, len(f.Files)-foldFiles):]
	}
	if e.Kind.Terminal() {
		f.Interrupted, f.WakeAt, f.News, f.Sent, f.Workers = "", time.Time{}, false, nil, nil
		f.Done, f.DoneStages = f.done(), nil
	}
}

// applyDone follows how much of the program is done. A stage that is visited again is not.
func (f *Fold) applyDone(e *Event) {
	switch e.Kind {
	case KindPlanStep:
		if s := BodyOf[PlanStep](e).Status; f.Pipeline == nil && (s == StepCompleted || s == StepCarried) {
			f.Done++
		}
	case KindStageStarted:
		delete(f.DoneStages, stageOf(e.Path))
	case KindStageFinished:
		if b := BodyOf[StageFinished](e); b.Outcome == "success" {
			put(&f.DoneStages, b.Stage, "")
		}
	}
}

func (f *Fold) done() int {
	n := f.Done
	for _, asks := range f.DoneStages {
		if asks == "" {
			n++
		}
	}
	return n
}

// steps is how far a run has come in a program of so many; nil: nobody knows. What a fork
// inherits is in the records of another run.
func (f *Fold) steps(known int) *StepCount {
	if known == 0 || f.Lineage != nil && (f.Lineage.Relation == relationFork || f.Lineage.Relation == relationRollback) {
		return nil
	}
	return &StepCount{Done: f.done(), Known: known}
}

// doubt follows which calls were sent, and nobody knows what became of them.
func (f *Fold) doubt(kind Kind, path string, class flow.Class) {
	switch {
	case kind != KindEffectIntended:
		delete(f.Sent, path)
	case class == flow.Once:
		put(&f.Sent, path, true)
	}
}

func (f *Fold) delivery() *DeliveryState {
	if f.Delivery == nil {
		f.Delivery = &DeliveryState{Kind: DeliveryNone}
	}
	return f.Delivery
}

// applyDelivery follows the delivery, of which it keeps what is short.
func (f *Fold) applyDelivery(e *Event) {
	switch e.Kind {
	case KindWorktreeCreated:
		f.WorktreeSeq = e.Seq
		if n := BodyOf[WorktreeCreated](e).Dirty; n > 0 {
			f.warn(Problem{Code: "checkout_dirty", Seq: e.Seq, Message: fmt.Sprintf("the checkout had %s that the run does not see", Plural(n, "uncommitted change"))})
		}
	case KindWorktreePrepared:
		for _, left := range BodyOf[WorktreePrepared](e).LeftOut {
			f.warn(Problem{Code: "file_left_out", Seq: e.Seq, Message: "the worktree was not given " + left.Path + ": " + left.Why})
		}
	case KindDiffRecorded:
		b := BodyOf[DiffRecorded](e)
		f.Changed = &RecordedChange{Stage: b.Stage, Files: b.Files, Added: b.Added, Removed: b.Removed, List: b.List}
	case KindDeliveryCommitted, KindDeliveryApplied, KindDeliverySkipped, KindFollowupCreated:
	case KindPolicyGate:
		b, err := flow.ReadOpened(string(e.Kind), e.Body)
		if err != nil || GateKind(b.Kind) != Delivery {
			return
		}
		// A subject that is too long for the record stands beside it: then this is all.
		f.delivery().Kind, f.Delivery.Key = DeliveryAsks, e.Path
		f.Delivery.Gate, _ = ParseID(b.Gate)
	default:
		if f.Delivery == nil || e.Kind != KindPolicyGateResolve && e.Kind != KindIntentAttest {
			return
		}
	}
	d := f.delivery()
	d.fold(e)
	for _, n := range d.Notices {
		f.warn(Problem{Code: n.Code, Seq: e.Seq, Message: n.Message})
	}
	d.Available, d.Blocked, d.Checks, d.ScopeViolations, d.Notices, d.Decision = nil, nil, nil, nil, nil, nil
	if d.Diff != nil {
		d.Diff.Paths, d.Diff.Untracked = nil, nil
	}
}

func (f *Fold) warn(p Problem) {
	known := slices.ContainsFunc(f.Warnings, func(w Problem) bool { return w.Code == p.Code && w.Message == p.Message })
	if !known && len(f.Warnings) < foldWarnings {
		f.Warnings = append(f.Warnings, p)
	}
}

// fileOf is what a record tells that the run keeps.
func fileOf(e *Event) (EvidenceFile, bool) {
	switch e.Kind {
	case KindDiffRecorded:
		b := BodyOf[DiffRecorded](e)
		return EvidenceFile{Name: "diff.patch", Kind: "diff", Digest: b.Patch, Path: cmp.Or(b.Stage, e.Path)}, true
	case KindCheckFinished:
		b := BodyOf[CheckFinished](e)
		return EvidenceFile{Name: b.Name, Kind: "check_output", Digest: b.Output, Path: e.Path}, b.Output != ""
	case KindSetupFinished:
		b := BodyOf[SetupFinished](e)
		return EvidenceFile{Name: b.Name, Kind: b.Phase + "_output", Digest: b.Output, Path: e.Path}, b.Output != ""
	case KindTaskOutput:
		b := BodyOf[TaskBrought](e).Output
		return EvidenceFile{Name: cmp.Or(b.Path, b.Kind), Kind: b.Kind, Digest: b.SHA256, Path: e.Path}, true
	case KindIntentAttest:
		digest := BodyOf[IntentAttest](e).OutputsDigest
		return EvidenceFile{Name: "outputs", Kind: "outputs", Digest: digest}, digest != ""
	}
	return EvidenceFile{}, false
}

// show puts the rest into a run. news: something has happened that it waits for, of which its
// records do not tell.
func (f *FoldRest) show(r *Run, owned Kind, news bool) {
	if !r.State.Terminal() {
		r.LastDrive = &LastDrive{Kind: owned, Reason: f.Interrupted, WakeAt: f.WakeAt, News: f.News || news}
	}
	if r.Condition == Interrupted {
		r.Doubts = slices.Sorted(maps.Keys(f.Sent))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Workers)) {
		r.Workers = append(r.Workers, f.Workers[name])
	}
	r.Artifacts, r.Warnings = slices.Clone(f.Files), slices.Clone(f.Warnings)
	d := f.Delivery
	if d == nil {
		return
	}
	r.Delivery = &RunDelivery{Kind: d.Kind, Gate: d.Gate, Key: d.Key, Release: d.Release, DefaultAction: d.DefaultAction, Base: d.Base, Commit: d.Commit,
		Branch: d.Branch, Outcome: d.Outcome, Worktree: copied(d.Worktree), WorktreeSeq: f.WorktreeSeq}
	r.Delivery.Followup, _ = ParseID(d.Followup) // of a record that cannot be read there is none
	if d.Diff != nil {
		r.Delivery.Diff = &DiffCounts{Files: d.Diff.Files, Added: d.Diff.Added, Removed: d.Diff.Removed, Tree: d.Diff.Tree, Patch: d.Diff.Patch}
	}
}
