package tipstaff

import (
	"context"
	"iter"
	"slices"
	"strings"
)

// Kinds of a [DeliveryState].
const (
	DeliveryNone      = "none"                       // nothing was recorded of a delivery
	DeliveryAsks      = "delivery_decision_required" // a gate is open
	DeliveryAsksToFix = "followup_decision_required" // a gate is open, and the release was rejected
	DeliveryDecided   = "decided"                    // its decision has not taken effect yet
	DeliveryCompleted = "completed"                  // it has
)

// DeliveryState is where the delivery of a run stands.
type DeliveryState struct {
	Kind            string            `json:"kind"`
	Gate            ID                `json:"gate_id,omitzero"`
	Key             string            `json:"key,omitempty"`
	Release         string            `json:"release,omitempty"`
	ReleaseReason   string            `json:"release_reason,omitempty"`
	Available       []AvailableAction `json:"available"`
	Blocked         []BlockedAction   `json:"blocked"`
	DefaultAction   string            `json:"default_action,omitempty"`
	Diff            *DeliveryDiff     `json:"diff,omitempty"`
	Base            string            `json:"base,omitempty"`
	Commit          string            `json:"commit,omitempty"`
	Worktree        *WorktreeState    `json:"worktree,omitempty"`
	Branch          string            `json:"delivery_branch,omitempty"`
	Checks          []Receipt         `json:"checks"`
	ScopeViolations []string          `json:"scope_violations"`
	Obeyed          []ObeyedFile      `json:"obeyed,omitempty"` // changed files of which more is to be known
	Secret          []string          `json:"secret,omitempty"` // changed files that hold a credential
	Notices         []Notice          `json:"notices"`
	Decision        *GateResolved     `json:"decision,omitempty"`
	Outcome         string            `json:"outcome,omitempty"`
	Followup        string            `json:"followup_run_id,omitempty"`
}

// AvailableAction is one that can be taken at a gate.
type AvailableAction struct {
	Action string    `json:"action"`
	Effect string    `json:"effect"`
	Next   *NextCall `json:"next,omitempty"` // the call that takes it, for callers who make calls
}

// DeliveryDiff is what a delivery changes, the first of its files by name.
type DeliveryDiff struct {
	Files     int      `json:"files"`
	Added     int64    `json:"added"`
	Removed   int64    `json:"removed"`
	Paths     []string `json:"paths"`
	Untracked []string `json:"untracked"`
	Tree      string   `json:"tree"`
	Patch     string   `json:"patch_digest"`
	Truncated bool     `json:"truncated,omitempty"` // there are more files than are named
}

// WorktreeState is where a run works.
type WorktreeState struct {
	Path    string `json:"path"`
	Branch  string `json:"branch"`
	Present *bool  `json:"present,omitempty"` // nil: it cannot be told from here
}

// EventReader reads the records of a run: the part of [Reader] that a projection needs.
type EventReader interface {
	Events(context.Context, EventsRequest) iter.Seq2[Event, error]
}

// DeliveryView is where the delivery of a run stands, whose status is known. present tells
// whether a directory is there; nil: nobody can tell.
func DeliveryView(ctx context.Context, r EventReader, run Run, present func(path string) bool) (DeliveryState, error) {
	s := newDeliveryState()
	for e, err := range upTo(ctx, r, run) {
		if err != nil {
			return s, err
		}
		s.fold(&e)
	}
	s.present(present)
	s.offer(run.OpenGates)
	return s, nil
}

func newDeliveryState() DeliveryState {
	return DeliveryState{Kind: DeliveryNone, Available: []AvailableAction{}, Blocked: []BlockedAction{}, Checks: []Receipt{}, ScopeViolations: []string{}, Notices: []Notice{}}
}

// present notes whether the worktree is there; is may be nil.
func (s *DeliveryState) present(is func(path string) bool) {
	if s.Worktree != nil && is != nil {
		there := is(s.Worktree.Path)
		s.Worktree.Present = &there
	}
}

// offer notes what can be done at the gate as things are now, if somebody has looked.
func (s *DeliveryState) offer(open []Gate) {
	for _, g := range open {
		b, ok := DeliverySubjectOf(g)
		if !ok || g.ID != s.Gate || g.Now == nil {
			continue
		}
		s.Blocked, s.DefaultAction = b.Blocked, b.DefaultAction
		s.actions(b.Available)
		if s.Worktree != nil {
			s.Worktree.Present = b.Present
		}
	}
}

func (s *DeliveryState) actions(available []string) {
	s.Available = []AvailableAction{}
	for _, action := range available {
		s.Available = append(s.Available, AvailableAction{Action: action, Effect: deliveryEffects[action]})
	}
}

func (s *DeliveryState) fold(e *Event) {
	switch e.Kind {
	case KindWorktreeCreated:
		b := BodyOf[WorktreeCreated](e)
		s.Worktree, s.Base = &WorktreeState{Path: b.Path, Branch: b.Branch}, b.Base
	case KindDiffRecorded:
		b := BodyOf[DiffRecorded](e)
		switch {
		case b.Stage != "":
			s.Notices = append(s.Notices, b.Notices...)
		case len(b.Notices) > 0: // those of the steps among them
			s.Notices = b.Notices
		}
		if b.Stage == "" {
			s.Diff = &DeliveryDiff{Files: b.Files, Added: b.Added, Removed: b.Removed, Paths: []string{}, Untracked: []string{}, Tree: b.Tree, Patch: b.Patch, Truncated: b.Files > 0}
		}
	case KindCheckFinished:
		s.Checks = append(s.Checks, BodyOf[CheckFinished](e).Receipt)
	case KindPolicyGate:
		if g, err := OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body); err == nil {
			s.opened(g)
		}
	case KindPolicyGateResolve:
		if b := BodyOf[GateResolved](e); !s.Gate.IsZero() && b.Gate == s.Gate.String() {
			s.resolved(b)
		}
	case KindDeliveryCommitted:
		s.Kind, s.Outcome, s.Branch = DeliveryCompleted, DeliveredCommitted, BodyOf[DeliveryCommitted](e).Branch
	case KindDeliveryApplied:
		s.Kind, s.Outcome = DeliveryCompleted, DeliveredApplied
	case KindDeliverySkipped:
		s.Kind, s.Outcome = DeliveryCompleted, DeliveredSkipped
	case KindFollowupCreated:
		s.Kind, s.Outcome, s.Followup = DeliveryCompleted, DeliveredFollowedUp, BodyOf[FollowupCreated](e).Child
	case KindIntentAttest:
		if s.Diff != nil && s.Diff.Files == 0 && s.Kind == DeliveryNone {
			s.Kind, s.Outcome = DeliveryCompleted, DeliveredEmpty
		}
	}
}

// opened is a gate that asks what becomes of the changes. It shows all of them.
func (s *DeliveryState) opened(g Gate) {
	b, ok := DeliverySubjectOf(g)
	if !ok {
		return
	}
	s.Kind = DeliveryAsks
	if b.Release == ReleaseRejected {
		s.Kind = DeliveryAsksToFix
	}
	s.Gate, s.Key, s.Release, s.ReleaseReason, s.DefaultAction, s.Decision = g.ID, g.Key, b.Release, b.ReleaseReason, b.DefaultAction, nil
	s.Base, s.Commit, s.Branch, s.Checks, s.Blocked = b.Base, b.Commit, b.Branch, b.Checks, b.Blocked
	s.ScopeViolations, s.Notices, s.Obeyed, s.Secret = b.ScopeViolations, b.Notices, b.Obeyed, b.Secret
	s.actions(b.Available)
	s.Diff = &DeliveryDiff{Files: b.Files, Added: b.Added, Removed: b.Removed, Paths: []string{}, Untracked: []string{}, Tree: b.Tree, Patch: b.Patch, Truncated: len(b.Paths) < b.Files}
	for _, f := range b.Paths {
		if s.Diff.Paths = append(s.Diff.Paths, f.Path); f.Untracked {
			s.Diff.Untracked = append(s.Diff.Untracked, f.Path)
		}
	}
}

func (s *DeliveryState) resolved(b GateResolved) {
	s.Available, s.Blocked = []AvailableAction{}, []BlockedAction{}
	if s.Kind = DeliveryDecided; !b.Decision() { // the run has ended meanwhile
		s.Kind = DeliveryCompleted
		return
	}
	s.Decision = &b
	if b.Action == DeliverHalt {
		s.Kind, s.Outcome = DeliveryCompleted, DeliveredHalted
	}
}

// there is a path, with whether it is there where that is known.
func there(path string, present *bool) string {
	if present != nil && !*present {
		path += "  (gone)"
	}
	return path
}

// Lines are the state for people.
func (s DeliveryState) Lines() []string {
	l := shower{Shown: Shown{Lines: []string{}}, all: true}
	l.field(0, "delivery", strings.ReplaceAll(s.Kind, "_", " "))
	if s.Kind == DeliveryNone && s.Worktree == nil {
		return l.Lines
	}
	l.field(0, "outcome", s.Outcome)
	linked, others := aboutLinks(s.Notices)
	l.told(linked)
	l.obeyed(s.Obeyed)
	if s.Decision != nil {
		l.field(0, "decision", strings.TrimSpace(s.Decision.Action+" "+s.Decision.Note))
	}
	if s.Diff != nil {
		l.field(0, "changed", CountOfChanges(s.Diff.Files, s.Diff.Added, s.Diff.Removed))
		for _, p := range s.Diff.Paths {
			if slices.Contains(s.Diff.Untracked, p) {
				p += "  (not added to git)"
			}
			l.line(1, p)
		}
	}
	l.field(0, "base", s.Base)
	l.field(0, "commit", s.Commit)
	l.field(0, "branch", strings.TrimPrefix(s.Branch, "refs/heads/"))
	if s.Worktree != nil {
		l.field(0, "worktree", there(s.Worktree.Path, s.Worktree.Present))
	}
	tree := ""
	if s.Diff != nil {
		tree = s.Diff.Tree
	}
	l.receipts(s.Checks, tree)
	if s.Release != ReleaseNone {
		l.field(0, "release", strings.TrimSuffix(s.Release+": "+s.ReleaseReason, ": "))
	}
	l.named("outside the paths of the delivery", s.ScopeViolations)
	l.told(others)
	for _, a := range s.Available {
		l.field(0, a.Action, a.Effect)
	}
	l.blocked(s.Blocked)
	l.field(0, "followed up by", s.Followup)
	return l.Lines
}
