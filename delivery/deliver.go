package delivery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// This file is deterministic: it asks a flow.Context for everything.

// Spec is a program that works in a worktree.
type Spec struct {
	Run     string // its id
	Title   string
	Program string // its digest
	Place   Place  // of the repository
	Base    string // the commit that the worktree begins with
	// Prepare is what the worktree is given beside the files of that commit.
	Prepare document.Preparation
	// Deliver is what is handed over at the end; nil: nothing, the worktree stays.
	Deliver *document.Deliver
	// Release says what the release expression makes of what the program has brought. An
	// error is a rejection. It is not called without an expression.
	Release func(Produced) (bool, error)
	// May says why a check may not be run, a person asked where the policy wants one. nil:
	// all may.
	May func(flow.Context, document.DeliverCheck) error
	// Line are the runs that the worktree went through: the first has made it, each of the
	// others, which follow it up, has taken it over as it was. nil: Run makes it.
	Line []string
	// Asked are the runs that have opened the first gates, if this one is a fork and has
	// inherited them.
	Asked []string
	// Parent is the run that this one follows up; nil: none.
	Parent *Parent
	// Earlier is of runs that were made before worktrees were made ready: their checks run in
	// the worktree, before its tree is recorded; their gates name nothing first, suggest what
	// may be blocked, and do not say why they open again.
	Earlier bool
}

// Parent is the run that a follow-up comes from.
type Parent struct {
	Run  string
	Gate tipstaff.Fixpoint // as things stood at its gate
}

// Produced is what a program has brought.
type Produced struct {
	Outputs  json.RawMessage
	Waivers  []tipstaff.Waiver
	Findings []tipstaff.FindingRecorded // that are open
	Notices  []tipstaff.Notice          // of what its agents did beside their worktree
	// Exhausted names the bound that leaves no room for a follow-up; "": none does.
	Exhausted string
}

// Halted is the error of a program that a decision has ended.
type Halted struct{ Decision flow.Decision }

func (h *Halted) Error() string {
	return strings.TrimSuffix("the delivery was halted: "+h.Decision.Note, ": ")
}

func (h *Halted) Unwrap() error { return flow.ErrCancelled }

// Names of the activities.
const (
	ActWorktree = "delivery.worktree"
	ActSetup    = "delivery.setup"
	ActCheck    = "delivery.check"
	ActDiff     = "delivery.diff"
	ActCommit   = "delivery.commit"
	ActPublish  = "delivery.publish"
	ActApply    = "delivery.apply"
)

// maxListed is how many files, names and notices a gate lists.
const maxListed = 200

// Run drives a program in a worktree of its own. What it has changed there is checked,
// committed under a hidden ref and shown to a person, who decides what becomes of it.
// Errors of inner, a Continue included, are handed up as they are.
func Run(fc flow.Context, s Spec, inner func(flow.Context, Worktree) (Produced, error)) (Produced, tipstaff.DeliveryOutcome, error) {
	d := &run{Spec: s, fc: fc, at: fc.At("deliver")}
	if err := d.begin(); err != nil {
		return Produced{}, tipstaff.DeliveryOutcome{}, err
	}
	produced, err := inner(fc, d.worktree)
	if err != nil {
		return produced, tipstaff.DeliveryOutcome{}, err
	}
	d.Produced = produced
	outcome, err := d.end()
	return produced, outcome, err
}

// run is one delivery.
type run struct {
	Spec
	Produced
	fc       flow.Context // of the program: gates stand here
	at       flow.Context // of our own calls and events
	worktree Worktree
	receipts []tipstaff.Receipt
	notices  []tipstaff.Notice
	diff     diffed

	hindrance *tipstaff.Notice // of what was decided last
}

func (d *run) begin() error {
	line := d.Line
	if len(line) == 0 {
		line = []string{d.Run}
	}
	for i, run := range line { // all but the last have done so: their records are inherited
		key, in := "worktree", worktreeInput{Run: run, Place: d.Place, Base: d.Base}
		if i == 0 && !d.Earlier {
			in.Give, in.Prepare = true, d.Prepare
		}
		if i > 0 {
			before := d.worktree
			key, in.Takes = fmt.Sprintf("worktree#%d", i+1), &before
		}
		made, err := do[worktreeMade](d.at, flow.Call{Key: key, Name: ActWorktree, Class: flow.Idempotent, Input: flow.JSON(in)})
		if err != nil {
			return err
		}
		d.worktree = made.Worktree
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindWorktreeCreated), Body: tipstaff.WorktreeCreated{Path: made.Path, Branch: made.Branch, Base: made.Base,
			Checkout: d.Place.Checkout, Dirty: made.Dirty}})
		if i == 0 {
			if err := d.prepare(made); err != nil {
				return err
			}
		}
	}
	return nil
}

// Actions at the gate about a disk that is full.
const (
	roomRetry = "retry"
	roomFail  = "fail"
)

// do asks for an activity that may be asked for again. Where there was no room on a disk it is:
// once a person has made some.
func do[T any](fc flow.Context, c flow.Call) (T, error) {
	below := fc.At(c.Key)
	got, err := flow.Do[T](fc, c)
	for n := 1; ; n++ {
		full := fullDisk(err)
		if full == nil {
			return got, err
		}
		gate := flow.Gate{Key: "failure", Kind: string(tipstaff.Question), Actions: []string{roomRetry, roomFail}, Deny: roomFail,
			Subject: flow.JSON(map[string]any{"code": full.Code, "message": full.Message, "attempt": n}), Question: "The disk is full. Make room there, then try again: " + full.Message}
		if n > 1 {
			gate.Key += "#" + strconv.Itoa(n)
		}
		decision, waited := below.Wait(gate)
		if waited != nil {
			return got, waited
		}
		if decision.Action != roomRetry {
			return got, err
		}
		c.Key = "again#" + strconv.Itoa(n+1)
		got, err = flow.Do[T](below, c)
	}
}

// fullDisk is the failure of an activity for which there was no room; nil: it is none.
func fullDisk(err error) *flow.Error {
	var failed *flow.Error
	if errors.As(err, &failed) && failed.Code == tipstaff.BlockDisk {
		return failed
	}
	return nil
}

// end checks and records what has changed, and asks what is to become of it.
func (d *run) end() (none tipstaff.DeliveryOutcome, err error) {
	if d.Earlier {
		if err := d.check(); err != nil {
			return none, err
		}
	}
	if d.diff, err = do[diffed](d.at, flow.Call{Key: "diff", Name: ActDiff, Class: flow.Idempotent, Input: flow.JSON(diffInput{Place: d.Place, Worktree: d.worktree, Obeyed: !d.Earlier})}); err != nil {
		return none, err
	}
	d.notices = append(d.notices, d.diff.Meddling...)
	if recorded := &d.diff.DiffRecorded; d.Place.Own != nil { // else where nothing has changed they are told nowhere
		recorded.Notices = slices.Concat(d.Produced.Notices, d.notices)
		recorded.Notices = recorded.Notices[:min(len(recorded.Notices), maxListed)]
	}
	d.at.Emit(flow.Event{Kind: string(tipstaff.KindDiffRecorded), Body: d.diff.DiffRecorded})
	switch {
	case d.Deliver == nil:
		return none, nil
	case d.diff.Files == 0:
		return tipstaff.DeliveryOutcome{Status: tipstaff.DeliveredEmpty}, nil
	}
	if !d.Earlier {
		if err := d.check(); err != nil {
			return none, err
		}
	}
	for n := 1; ; n++ {
		outcome, again, err := d.ask(n)
		if err != nil || !again {
			return outcome, err
		}
	}
}

// check runs the checks of the delivery.
func (d *run) check() error {
	if d.Deliver == nil {
		return nil
	}
	for i, c := range d.Deliver.Checks {
		if err := d.checkOne(i+1, c); err != nil {
			return err
		}
	}
	return nil
}

func (d *run) checkOne(n int, c document.DeliverCheck) error {
	key := "check#" + strconv.Itoa(n)
	if d.May != nil {
		err := d.May(d.at.At(key), c)
		var refused *flow.Error
		if errors.As(err, &refused) {
			d.receive(tipstaff.Receipt{Name: c.Name, Argv: c.Run, Required: c.Required, Code: refused.Code, Message: refused.Message})
			return nil
		}
		if err != nil {
			return err
		}
	}
	in := checkInput{Place: d.Place, Worktree: d.worktree, Check: c}
	if !d.Earlier && c.In != tipstaff.InWorktree {
		in.Tree, in.Prepare = d.diff.Tree, d.Prepare
	}
	// There is no limit of the whole: each command, each call of git and what is copied and
	// compared has its own, and how many of them it takes is not known here.
	got, err := do[checked](d.at, flow.Call{Key: key, Name: ActCheck, Class: flow.Idempotent, Input: flow.JSON(in)})
	if err != nil {
		return err
	}
	d.steps(tipstaff.PhaseTeardown, got.Teardown...)
	d.steps(tipstaff.PhaseSetup, got.Setup...)
	d.notices = append(d.notices, got.Notices...)
	d.receive(got.Receipt)
	return nil
}

func (d *run) receive(r tipstaff.Receipt) {
	d.receipts = append(d.receipts, r)
	d.at.Emit(flow.Event{Kind: string(tipstaff.KindCheckFinished), Body: tipstaff.CheckFinished{Receipt: r}})
}

// ask opens the n-th gate and does what is decided there. again: something has come in the
// way since, and must be shown.
func (d *run) ask(n int) (outcome tipstaff.DeliveryOutcome, again bool, err error) {
	run := d.Run
	if n <= len(d.Asked) {
		run = d.Asked[n-1]
	}
	branch := Branch(run, d.Title)
	made, err := do[committed](d.at, flow.Call{Key: "commit#" + strconv.Itoa(n), Name: ActCommit, Class: flow.Idempotent, Input: flow.JSON(commitInput{
		Place: d.Place, Worktree: d.worktree, Run: run, N: n, Tree: d.diff.Tree, Title: title(d.Title), Program: d.Program, At: d.at.Now().Unix(), Branch: branch,
		Teardown: d.Prepare.Teardown, Withheld: len(d.diff.Secret) > 0})})
	if err != nil {
		return outcome, false, err
	}
	d.steps(tipstaff.PhaseTeardown, made.Teardown...)
	if made.Obeyed != nil {
		d.diff.Obeyed = sinceThen(d.diff.Obeyed, *made.Obeyed)
	}
	subject := d.subject(made, branch)
	decision, err := d.fc.Wait(flow.Gate{Key: "delivery#" + strconv.Itoa(n), Kind: string(tipstaff.Delivery), Subject: flow.JSON(subject),
		Question: tipstaff.Plural(d.diff.Files, "file") + " changed, " + tipstaff.Plural(int(d.diff.Added), "line") + fmt.Sprintf(" added and %d removed. What becomes of it?", d.diff.Removed), Actions: tipstaff.DeliveryActions})
	if err != nil {
		return outcome, false, err
	}
	outcome = tipstaff.DeliveryOutcome{Commit: made.Commit, Patch: d.diff.Patch}
	switch decision.Action {
	case tipstaff.DeliverApprove:
		got, err := do[delivered](d.at, flow.Call{Key: "publish#" + strconv.Itoa(n), Name: ActPublish, Class: flow.Idempotent,
			Input: flow.JSON(publishInput{Place: d.Place, Worktree: d.worktree, Branch: branch, Commit: made.Commit, Tree: d.diff.Tree, Teardown: d.Prepare.Teardown})})
		if err != nil || got.Blocked != "" {
			return outcome, d.hindered(decision.Action, got), err
		}
		outcome.Status, outcome.Branch = tipstaff.DeliveredCommitted, branch
		d.steps(tipstaff.PhaseTeardown, got.Teardown...)
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindDeliveryCommitted), Body: tipstaff.DeliveryCommitted{Gate: decision.Gate, Branch: branch, Commit: made.Commit}})
	case tipstaff.DeliverApply:
		got, err := flow.Do[delivered](d.at, flow.Call{Key: "apply#" + strconv.Itoa(n), Name: ActApply, Class: flow.Once,
			Input: flow.JSON(d.applied(made, tipstaff.AcceptsObeyed(decision.Answer)))})
		if err != nil || got.Blocked != "" {
			return outcome, d.hindered(decision.Action, got), err
		}
		outcome.Status = tipstaff.DeliveredApplied
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindDeliveryApplied), Body: tipstaff.DeliveryApplied{Gate: decision.Gate, Commit: made.Commit, Patch: d.diff.Patch, Already: got.Already}})
	case tipstaff.DeliverFix: // the decision has made the follow-up
		outcome.Status = tipstaff.DeliveredFollowedUp
	case tipstaff.DeliverSkip:
		outcome.Status = tipstaff.DeliveredSkipped
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindDeliverySkipped), Body: tipstaff.DeliverySkipped{Gate: decision.Gate, By: decision.By}})
	default:
		return outcome, false, &Halted{decision}
	}
	return outcome, false, nil
}

// applied is what `apply` is asked for. An acceptance is of the files that the gate has named.
func (d *run) applied(made committed, accepted bool) applyInput {
	in := applyInput{Place: d.Place, Base: d.worktree.Base, Commit: cmp.Or(made.Commit, d.diff.Tree), Asks: !d.Earlier, Accepted: accepted && !made.Names}
	if accepted && made.Names {
		in.Named = tipstaff.AskedAbout(d.diff.Obeyed)
	}
	if d.Place.Own != nil { // whose objects are beside it
		in.Worktree = &d.worktree
	}
	return in
}

// CodeHindered is the notice that what was decided at the gate before could not be done.
const CodeHindered = "delivery_hindered"

// hindered notes what came in the way of a decided action, if anything did, for the gate
// that opens in its place.
func (d *run) hindered(action string, got delivered) bool {
	if got.Blocked != "" && !d.Earlier {
		d.hindrance = &tipstaff.Notice{Code: CodeHindered, Message: action + " was decided, and could not be done: " + got.by() + ". Nothing was changed"}
	}
	return got.Blocked != ""
}

func title(said string) string {
	if said = oneLine(said); said == "" {
		return "Changes of a run"
	}
	return said
}

// subject is what the gate shows.
func (d *run) subject(made committed, branch string) tipstaff.DeliverySubject {
	s := tipstaff.DeliverySubject{Base: d.worktree.Base, Tree: d.diff.Tree, Commit: made.Commit, Branch: branch,
		Patch: d.diff.Patch, List: d.diff.List, Files: d.diff.Files, Added: d.diff.Added, Removed: d.diff.Removed, Paths: d.diff.First, Truncated: d.diff.Truncated,
		Obeyed: d.diff.Obeyed, Secret: append(d.diff.Secret, made.Secret...), Folders: d.diff.Folders,
		Checks: append([]tipstaff.Receipt{}, d.receipts...), Release: tipstaff.ReleaseNone, ScopeViolations: []string{}, Findings: d.Findings,
		Notices:  append(append([]tipstaff.Notice{}, d.Produced.Notices...), append(d.notices, made.Notices...)...),
		Worktree: d.worktree.Path, WorktreeBranch: d.worktree.Branch, Checkout: d.Place.Checkout, FeedbackFor: []string{tipstaff.DeliverFix}}
	if d.hindrance != nil {
		s.Notices = slices.Insert(s.Notices, 0, *d.hindrance)
	}
	s.Notices = linkedFirst(s.Notices)
	s.Notices = s.Notices[:min(len(s.Notices), maxListed)]
	if d.Deliver.Release != "" {
		s.Release = tipstaff.ReleaseApproved
		if ok, err := d.Spec.Release(d.Produced); err != nil {
			s.Release, s.ReleaseReason = tipstaff.ReleaseRejected, err.Error()
		} else if !ok {
			s.Release, s.ReleaseReason = tipstaff.ReleaseRejected, "the release expression is false"
		}
	}
	s.ScopeViolations = append(s.ScopeViolations, Outside(d.Deliver.Paths, d.Place.Prefix, d.diff.Names)...)
	now := s.Fixpoint()
	fixed := d.Parent != nil && now.Equal(d.Parent.Gate)
	if fixed && made.N == 1 {
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindFollowupFixedPoint), Body: tipstaff.FollowupFixedPoint{Parent: d.Parent.Run, Fixpoint: now}})
	}
	s.Blocked = Blocked(Facts{Scope: s.ScopeViolations, Failing: required(s.Checks, s.Tree), Rejected: s.Release == tipstaff.ReleaseRejected, Reason: s.ReleaseReason,
		Branch: branch, BranchTaken: made.Taken, Fit: made.Fit, Dirty: made.Dirty, WorktreeMissing: made.Missing, Meddled: made.Meddled, FixedPoint: fixed, Exhausted: d.Exhausted,
		Secret: s.Secret, Lost: made.Lost, Unreadable: made.Unreadable})
	s.ScopeViolations = s.ScopeViolations[:min(len(s.ScopeViolations), maxListed)]
	s.Available = tipstaff.Unblocked(s.Blocked)
	if !d.Earlier {
		s.DefaultAction = tipstaff.DefaultDelivery(s.Blocked, s.Release == tipstaff.ReleaseRejected)
	} else if s.DefaultAction = tipstaff.DeliverApprove; s.Release == tipstaff.ReleaseRejected {
		s.DefaultAction = tipstaff.DeliverFix
	}
	return s
}

// required are the names of the checks that must have passed on a tree and have not.
func required(checks []tipstaff.Receipt, tree string) (names []string) {
	for _, c := range checks {
		if c.Required && !c.Passed(tree) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Facts are what decides which actions of a gate are blocked.
type Facts struct {
	Secret          []string // changed files that hold a credential
	Scope           []string // changed paths outside those that may change
	Failing         []string // checks that are required, and did not pass on this tree
	Rejected        bool     // by the release expression
	Reason          string   // why
	Branch          string
	BranchTaken     bool
	Fit             Fit
	Dirty           []string // files of the checkout, of that fit; or of Refused; of Unclear, why
	WorktreeMissing bool
	Meddled         []string // settings of the repository that start or redirect something, and changed
	Lost            bool     // what was recorded cannot be read any more
	Unreadable      string   // why nobody can look at the repository; "": somebody has
	FixedPoint      bool
	Exhausted       string                  // a bound
	NoFollowup      *tipstaff.BlockedAction // why there can be none, where that was settled before
}

// Blocked are the actions that cannot be taken, each with the first thing that stands in
// its way.
func Blocked(f Facts) []tipstaff.BlockedAction {
	blocked := []tipstaff.BlockedAction{}
	type obstacle struct {
		is           bool
		code, reason string
	}
	first := func(action string, all ...obstacle) {
		if i := slices.IndexFunc(all, func(o obstacle) bool { return o.is }); i >= 0 {
			blocked = append(blocked, tipstaff.BlockedAction{Action: action, Code: all[i].code, Reason: all[i].reason})
		}
	}
	rejected := obstacle{f.Rejected, tipstaff.BlockRelease, "the release was rejected: " + f.Reason}
	ship := []obstacle{
		{len(f.Secret) > 0, tipstaff.BlockSecret, "a credential that the run knows is in " + some(f.Secret)},
		{len(f.Scope) > 0, tipstaff.BlockScope, "files outside the paths of the delivery were changed: " + some(f.Scope)},
		{len(f.Failing) > 0, tipstaff.BlockVerification, "required checks have not passed on this tree: " + some(f.Failing)},
		rejected,
		{len(f.Meddled) > 0, tipstaff.BlockRepository, meddledReason(f.Meddled)},
		{f.Lost, tipstaff.BlockWorktree, "what was recorded of the worktree is gone, or cannot be read; take the change with show --diff and git apply"},
		{f.Unreadable != "", tipstaff.BlockUnreadable, "nobody can look at the repository: " + f.Unreadable},
	}
	first(tipstaff.DeliverApprove, append(slices.Clip(ship), obstacle{f.BranchTaken, tipstaff.BlockBranch, "the branch " + f.Branch + " exists and is elsewhere"})...)
	first(tipstaff.DeliverApply, append(slices.Clip(ship),
		obstacle{f.Fit == Unclear, tipstaff.BlockUnreadable, "nobody can look at the checkout: " + some(f.Dirty)},
		obstacle{f.Fit == Refused, tipstaff.BlockProtected, "no run ever changes " + some(f.Dirty) + ": approve makes a branch of the changes"},
		obstacle{f.Fit == Dirty, tipstaff.BlockDirty, "files that would be changed have local changes in the checkout: " + some(f.Dirty)},
		obstacle{f.Fit == Conflict, tipstaff.BlockConflict, "the changes do not fit the checkout as it is"},
		obstacle{f.Fit == Unfetched, tipstaff.BlockContents, "neither the repository nor the run has what git LFS keeps of " + some(f.Dirty) + ": `git lfs fetch` in the checkout may bring it; approve makes a branch of the changes"})...)
	settled := tipstaff.BlockedAction{}
	if f.NoFollowup != nil {
		settled = *f.NoFollowup
	}
	first(tipstaff.DeliverFix,
		obstacle{f.WorktreeMissing, tipstaff.BlockWorktree, "the worktree is gone"},
		obstacle{settled.Code != "", settled.Code, settled.Reason},
		obstacle{f.FixedPoint, tipstaff.BlockNotConverging, "the last follow-up changed nothing: findings, failing checks and files are those of its parent"},
		obstacle{f.Exhausted != "", tipstaff.BlockBound, "the bound " + f.Exhausted + " leaves no room for a follow-up"})
	first(tipstaff.DeliverSkip, rejected)
	return blocked
}

// some are the first few of many.
func some(names []string) string {
	told := names[:min(3, len(names))]
	text := strings.Join(told, ", ")
	if more := len(names) - len(told); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Outside are the names that no pattern matches. Patterns are relative to the project,
// names to the repository; no patterns match all.
func Outside(patterns []string, prefix string, names []string) (outside []string) {
	if len(patterns) == 0 {
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(patterns, func(p string) bool {
			return document.MatchPath(path.Join(prefix, p), name)
		}) {
			outside = append(outside, name)
		}
	}
	return outside
}
