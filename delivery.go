package tipstaff

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Actions of a delivery gate.
const (
	DeliverApprove = "approve" // on resume: a branch at the commit that was shown
	DeliverApply   = "apply"   // on resume: the patch in the checkout, uncommitted
	DeliverFix     = "fix"     // at once: a follow-up
	DeliverSkip    = "skip"    // nothing; the worktree stays
	DeliverHalt    = "halt"    // at once: the run is cancelled
)

// DeliveryActions are the actions in the order in which they are offered.
var DeliveryActions = []string{DeliverApprove, DeliverApply, DeliverFix, DeliverSkip, DeliverHalt}

// deliveryEffects say what an action does.
var deliveryEffects = map[string]string{
	DeliverApprove: "on resume: a branch at the commit that was shown",
	DeliverApply:   "on resume: the changes in the checkout, uncommitted",
	DeliverFix:     "at once: a follow-up run in the same worktree",
	DeliverSkip:    "nothing is delivered; the worktree stays",
	DeliverHalt:    "at once: the run is cancelled",
}

// What a delivery came to.
const (
	DeliveredCommitted  = "committed"
	DeliveredApplied    = "applied"
	DeliveredFollowedUp = "followed_up"
	DeliveredSkipped    = "skipped"
	DeliveredHalted     = "halted"
	DeliveredEmpty      = "empty" // nothing had changed: nobody was asked
)

// Codes of what stands in the way of an action.
const (
	BlockScope         = "scope_violation"
	BlockVerification  = "verification_failed"
	BlockRelease       = "release_rejected"
	BlockBranch        = "branch_exists"
	BlockDirty         = "target_dirty"
	BlockConflict      = "patch_conflict"
	BlockWorktree      = "worktree_missing"
	BlockNotConverging = "followup_not_converging"
	BlockBound         = "bound_exceeded"
	BlockContents      = "lfs_content_missing"
	BlockProtected     = "protected_path"
	BlockObeyed        = "obeyed_files_changed"
	BlockSecret        = "secret_in_diff"
	BlockRepository    = "repository_changed"
	BlockDisk          = "disk_full"
	BlockUnwritable    = "not_writable"
	BlockBusy          = "repository_busy"
	BlockUnreadable    = "repository_unreadable"
)

// LinkedChanged is the notice, and the failure of a check, that what a worktree has a link to has
// changed.
const LinkedChanged = "linked_changed"

// BlockedAction is an action of a gate that cannot be taken now, and why.
type BlockedAction struct {
	Action string `json:"action"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// DeliveryNow is what stands in the way of the actions of an open delivery gate as things
// are now. What its record says of them is how they were when it opened.
type DeliveryNow struct {
	Blocked       []BlockedAction `json:"blocked"`
	DefaultAction string          `json:"default_action"`
	Worktree      bool            `json:"worktree_present"`
	Asks          []string        `json:"asks,omitempty"` // changed files about which `apply` asks once more, by what the manifest says now
}

// DeliverySubject is what a delivery gate asks about: exactly what `approve` publishes, and
// what is known of it.
type DeliverySubject struct {
	Base            string            `json:"base"`
	Tree            string            `json:"tree"`
	Commit          string            `json:"commit"`
	Branch          string            `json:"delivery_branch"`
	Patch           string            `json:"patch_digest"`
	List            string            `json:"list_digest"`
	Files           int               `json:"files"`
	Added           int64             `json:"added"`
	Removed         int64             `json:"removed"`
	Obeyed          []ObeyedFile      `json:"obeyed,omitempty"`  // all of them
	Secret          []string          `json:"secret,omitempty"`  // files that hold a credential which the run knows; there is no commit then
	Paths           []FileChange      `json:"paths"`             // the first of them
	Folders         []FolderChange    `json:"folders,omitempty"` // of the others
	Truncated       bool              `json:"truncated,omitempty"`
	Checks          []Receipt         `json:"checks"`
	Release         string            `json:"release"` // none, approved, rejected
	ReleaseReason   string            `json:"release_reason,omitempty"`
	ScopeViolations []string          `json:"scope_violations"`   // the first of them
	Findings        []FindingRecorded `json:"findings,omitempty"` // those that are open
	Notices         []Notice          `json:"notices"`
	Worktree        string            `json:"worktree"`
	WorktreeBranch  string            `json:"worktree_branch"`
	Checkout        string            `json:"checkout"`
	Available       []string          `json:"available"`
	Blocked         []BlockedAction   `json:"blocked"`
	DefaultAction   string            `json:"default_action"`
	FeedbackFor     []string          `json:"feedback_required_for"`

	Present *bool `json:"-"` // the worktree; nil: nobody has looked
}

// What a release expression says.
const (
	ReleaseNone     = "none" // there is no expression
	ReleaseApproved = "approved"
	ReleaseRejected = "rejected"
)

// DeliverySubjectOf reads the subject of a delivery gate, with what stands in the way of its
// actions as it was last looked for.
func DeliverySubjectOf(g Gate) (s DeliverySubject, ok bool) {
	if g.Kind != Delivery || json.Unmarshal(g.Subject, &s) != nil || s.Tree == "" {
		return s, false
	}
	if g.Now != nil {
		s.Blocked, s.DefaultAction = g.Now.Blocked, g.Now.DefaultAction
		s.Available, s.Present = Unblocked(s.Blocked), &g.Now.Worktree
	}
	return s, true
}

// AsksAgain names the files that an action changes and about which it has to be asked once
// more, because runs and programs obey them: those of its record, and those that have become
// such files since.
func AsksAgain(g Gate, action string) (names []string) {
	if action != DeliverApply {
		return nil
	}
	s, _ := DeliverySubjectOf(g)
	for _, path := range AskedAbout(s.Obeyed) {
		names = append(names, obeyedName(path))
	}
	if g.Now != nil {
		for _, path := range g.Now.Asks {
			if name := obeyedName(path); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// AskedAbout are the paths of those files about which `apply` asks once more.
func AskedAbout(files []ObeyedFile) (paths []string) {
	for _, f := range files {
		if f.Apply == ApplyAsks {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// obeyedAnswer is the answer that changes what runs and programs obey, too.
type obeyedAnswer struct {
	Obeyed bool `json:"obeyed"`
}

// AcceptObeyed is the answer with which `apply` changes what runs and programs obey, too.
func AcceptObeyed() json.RawMessage { return flow.JSON(obeyedAnswer{true}) }

// AcceptsObeyed reports whether an answer is [AcceptObeyed].
func AcceptsObeyed(answer json.RawMessage) bool {
	var a obeyedAnswer
	return json.Unmarshal(answer, &a) == nil && a.Obeyed
}

// Unblocked are the actions of a delivery that nothing stands in the way of.
func Unblocked(blocked []BlockedAction) []string {
	return slices.DeleteFunc(slices.Clone(DeliveryActions), func(action string) bool { return blockOf(blocked, action) != nil })
}

// DefaultDelivery is the action that a delivery suggests: the first of those that hand over
// or correct that nothing stands in the way of.
func DefaultDelivery(blocked []BlockedAction, rejected bool) string {
	open, order := Unblocked(blocked), []string{DeliverApprove, DeliverFix, DeliverSkip}
	if rejected {
		order = order[1:]
	}
	for _, action := range order {
		if slices.Contains(open, action) {
			return action
		}
	}
	return DeliverHalt
}

func blockOf(blocked []BlockedAction, action string) *BlockedAction {
	if i := slices.IndexFunc(blocked, func(b BlockedAction) bool { return b.Action == action }); i >= 0 {
		return &blocked[i]
	}
	return nil
}

// Available are the actions of a gate that can be taken.
func (g Gate) Available() []string {
	return slices.DeleteFunc(slices.Clone(g.Actions), func(action string) bool { return BlockedAt(g, action) != nil })
}

// Effect is what an action of the gate does, in words.
func (g Gate) Effect(action string) string {
	if g.Kind == Delivery {
		return deliveryEffects[action]
	}
	return action + " at " + g.Key
}

// BlockedAt is why an action of a gate cannot be taken; nil: it can.
func BlockedAt(g Gate, action string) *BlockedAction {
	s, _ := DeliverySubjectOf(g)
	return blockOf(s.Blocked, action)
}

// Fixpoint is what the next run is compared with.
func (s DeliverySubject) Fixpoint() Fixpoint { return FixpointOf(s.Tree, s.Findings, s.Checks) }

// FixpointOf is what two runs are compared by.
func FixpointOf(tree string, findings []FindingRecorded, checks []Receipt) Fixpoint {
	p := Fixpoint{Tree: tree, Findings: []string{}, Failing: []string{}}
	for _, f := range findings {
		p.Findings = append(p.Findings, FindingID(f))
	}
	for _, c := range checks {
		if !c.Passed(tree) {
			p.Failing = append(p.Failing, c.Name)
		}
	}
	slices.Sort(p.Findings)
	slices.Sort(p.Failing)
	p.Findings = slices.Compact(p.Findings)
	return p
}

// Equal reports whether nothing that matters differs.
func (p Fixpoint) Equal(q Fixpoint) bool {
	return p.Tree == q.Tree && slices.Equal(p.Findings, q.Findings) && slices.Equal(p.Failing, q.Failing)
}

// FindingID names what a finding is about, so that the same one is known in another visit
// and another run.
func FindingID(f FindingRecorded) string {
	title := strings.Join(strings.Fields(strings.ToLower(f.Title)), " ")
	b := []byte{'['}
	for i, part := range []string{f.Stage, f.Severity, title, f.File} {
		if i > 0 {
			b = append(b, ',')
		}
		b = canon.AppendString(b, part)
	}
	sum := sha256.Sum256(append(b, ']'))
	return "f_" + hex.EncodeToString(sum[:6])
}

// Followup is what a follow-up is told: why there is one, and how things stood at the gate
// of its parent.
type Followup struct {
	Feedback    string            `json:"feedback"`
	Findings    []FindingRecorded `json:"findings"`
	Checks      []Receipt         `json:"checks"` // those that failed
	ParentRunID string            `json:"parent_run_id"`
	Gate        string            `json:"gate"` // the parent's, whose decision has made it
	Tree        string            `json:"tree"` // that was shown there
}

// Fixpoint is how things stood at the parent's gate.
func (f *Followup) Fixpoint() Fixpoint { return FixpointOf(f.Tree, f.Findings, f.Checks) }

// FollowupID is the id of the run that `fix` makes at a gate. It follows from the gate's, so
// that one gate makes one run, however often it is decided.
func FollowupID(gate ID) ID {
	sum := sha256.Sum256([]byte("followup " + gate.String()))
	id := gate // which has the time in its first bytes
	copy(id[6:], sum[:])
	return id
}

// FollowupOf is what the follow-up of a run is told that a decision at a gate makes.
func FollowupOf(run, gate string, s DeliverySubject, feedback string) Followup {
	f := Followup{Feedback: feedback, Findings: append([]FindingRecorded{}, s.Findings...), Checks: []Receipt{}, ParentRunID: run, Gate: gate, Tree: s.Tree}
	for _, c := range s.Checks {
		if !c.Passed(s.Tree) {
			f.Checks = append(f.Checks, c)
		}
	}
	return f
}

// DeliveryOutcome is what a delivery came to: the output `delivery` of a pipeline.
type DeliveryOutcome struct {
	Status string `json:"status"`
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	Patch  string `json:"diff_digest,omitempty"`
}
