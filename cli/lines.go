package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// plainLine is a record as one line of a log, nil for records that only machines
// care about.
func plainLine(ev tipstaff.Event, what, detail string) line {
	if what == "" {
		return nil
	}
	where := cmp.Or(ev.Path, "run")
	return line{say(plain, where+"  "), say(wordColors[what], what)}.and(plain, detail)
}

var wordColors = map[string]color{
	"completed": green, "carried": green, "failed": red, "refused": red, "uncertain": red,
	"waiting": yellow, "parked": yellow, "interrupted": yellow, "cancelled": yellow, "retrying": yellow,
	"setup failed": red, "teardown failed": red, "call failed": red, "gave up": red, "check failed": red, "check passed": green, "delivered": green, "applied": green,
}

// plainWords are what a record says, in a word and the rest; "": only machines care.
func plainWords(ev *tipstaff.Event) (what, detail string) {
	switch ev.Kind {
	case tipstaff.KindRunQueued, tipstaff.KindRunStarted, tipstaff.KindRunResumed, tipstaff.KindRunParked, tipstaff.KindRunForked:
		return strings.TrimPrefix(string(ev.Kind), "run."), ""
	case tipstaff.KindRunInterrupted:
		return "interrupted", tipstaff.BodyOf[tipstaff.RunInterrupted](ev).Reason
	case tipstaff.KindRunCancelRequested:
		return "cancel requested", tipstaff.BodyOf[tipstaff.RunCancelRequested](ev).Reason
	case tipstaff.KindRunCorrectionRequested:
		return "correction requested", tipstaff.BodyOf[tipstaff.RunCorrectionRequested](ev).Reason
	case tipstaff.KindIntentCorrect:
		b := tipstaff.BodyOf[tipstaff.IntentCorrect](ev)
		return "corrected", correctionText(b.Revision, b.Material != nil && *b.Material, b.Reasons)
	case tipstaff.KindPlanProposed:
		if b := tipstaff.BodyOf[tipstaff.PlanProposed](ev); b.Revision > 1 {
			return "in force", fmt.Sprintf("revision %d", b.Revision)
		}
	case tipstaff.KindIntentAttest:
		return "completed", tipstaff.BodyOf[tipstaff.IntentAttest](ev).Outcome
	case tipstaff.KindIntentFail:
		b := tipstaff.BodyOf[tipstaff.IntentFail](ev)
		return "failed", tipstaff.Joined(": ", tipstaff.Joined(" ", b.Reason, b.Bound), b.Message)
	case tipstaff.KindIntentCancel:
		return "cancelled", tipstaff.BodyOf[tipstaff.IntentCancel](ev).Reason
	case tipstaff.KindPlanStep:
		return stepWords(tipstaff.BodyOf[tipstaff.PlanStep](ev))
	case tipstaff.KindPlanDrafted:
		return "drafted", fmt.Sprintf("attempt %d", tipstaff.BodyOf[tipstaff.PlanDrafted](ev).Attempts)
	case tipstaff.KindAgentToolCallRequest:
		b := tipstaff.BodyOf[tipstaff.AgentToolCallRequest](ev)
		return "calls", tipstaff.Joined("  ", b.Title(), string(b.Effect))
	case tipstaff.KindAgentToolCallResult:
		if b := tipstaff.BodyOf[tipstaff.AgentToolCallResult](ev); b.IsError {
			return "call failed", b.Class
		}
	case tipstaff.KindAgentError:
		b := tipstaff.BodyOf[tipstaff.AgentError](ev)
		return "gave up", tipstaff.Joined(": ", b.Code, b.Msg)
	case tipstaff.KindEffectFailed:
		return fmt.Sprintf("attempt %d failed", tipstaff.BodyOf[tipstaff.Effect](ev).Attempt), tipstaff.RetryText(ev)
	case tipstaff.KindBoundRefused:
		b := tipstaff.BodyOf[tipstaff.BoundRefused](ev)
		return "bound refused", boundText(b.Bound, b.Used, tipstaff.BoundStatus{Limit: b.Limit, Limited: true})
	case tipstaff.KindBoundExtended:
		b := tipstaff.BodyOf[tipstaff.BoundExtended](ev)
		return "bound extended", b.Bound + " by " + tipstaff.AmountText(b.Bound, b.By)
	case tipstaff.KindBoundWarned:
		b := tipstaff.BodyOf[tipstaff.BoundWarned](ev)
		return "bound warned", boundText(b.Bound, b.Used, tipstaff.BoundStatus{Limit: b.Limit, Limited: true})
	case tipstaff.KindPolicyGate:
		return "waiting", tipstaff.BodyOf[tipstaff.GateOpened](ev).Question
	case tipstaff.KindIntentClarify:
		return "waiting", plural(len(tipstaff.BodyOf[tipstaff.IntentClarify](ev).Questions), "question")
	case tipstaff.KindIntentAnswer:
		return "decided", tipstaff.Joined("  ", "answer", tipstaff.BodyOf[tipstaff.IntentAnswer](ev).Via)
	case tipstaff.KindIntentAccept:
		if ev.Path != "" { // else it was accepted by handing it over
			return "decided", tipstaff.Joined("  ", "accept", tipstaff.BodyOf[tipstaff.IntentAccept](ev).Via)
		}
	case tipstaff.KindPolicyGateResolve:
		b := tipstaff.BodyOf[tipstaff.GateResolved](ev)
		if !b.Decision() {
			return "closed", b.Via
		}
		return "decided", tipstaff.Joined("  ", b.Action, b.Via)
	}
	for _, words := range []func(*tipstaff.Event) (string, string){workerWords, deliveryWords, stageWords} {
		if what, detail = words(ev); what != "" {
			break
		}
	}
	return what, detail
}

// workerWords are what a record about workers and their tasks says.
func workerWords(ev *tipstaff.Event) (what, detail string) {
	switch ev.Kind {
	case tipstaff.KindWorkerStarted:
		return "worker", tipstaff.BodyOf[tipstaff.WorkerStarted](ev).String()
	case tipstaff.KindWorkerEnded:
		b := tipstaff.BodyOf[tipstaff.WorkerEnded](ev)
		return "worker ended", tipstaff.Joined("  ", human(time.Duration(b.DurationMS)*time.Millisecond), b.String())
	case tipstaff.KindTaskStatus:
		b := tipstaff.BodyOf[tipstaff.TaskMoved](ev)
		switch {
		case b.From != b.To:
		case b.SessionID != "":
			return "session", b.SessionID
		default: // its outcome, which the end of the worker tells
			return "", ""
		}
		return "task", tipstaff.Joined(": ", fmt.Sprintf("%s %s → %s", b.Task, b.From, b.To), b.Why)
	case tipstaff.KindTaskLog:
		b := tipstaff.BodyOf[tipstaff.TaskLogged](ev)
		return "task log", tipstaff.Joined(": ", b.Level, b.Text)
	case tipstaff.KindTaskOutput:
		b := tipstaff.BodyOf[tipstaff.TaskBrought](ev)
		return "task output", tipstaff.Joined("  ", b.Output.Kind, b.Output.Path, b.Output.Note)
	}
	return "", ""
}

// deliveryWords are what a record about a worktree and its delivery says.
func deliveryWords(ev *tipstaff.Event) (what, detail string) {
	switch ev.Kind {
	case tipstaff.KindWorktreeCreated:
		b := tipstaff.BodyOf[tipstaff.WorktreeCreated](ev)
		detail = b.Path + " at " + shortCommit(b.Base)
		if b.Dirty > 0 {
			detail = tipstaff.Joined("  ", detail, "without "+plural(b.Dirty, "uncommitted change")+" of the checkout")
		}
		return "worktree", detail
	case tipstaff.KindWorktreePrepared:
		return "prepared", tipstaff.BodyOf[tipstaff.WorktreePrepared](ev).String()
	case tipstaff.KindSetupFinished:
		return setupWords(tipstaff.BodyOf[tipstaff.SetupFinished](ev))
	case tipstaff.KindDiffRecorded:
		b := tipstaff.BodyOf[tipstaff.DiffRecorded](ev)
		if what = "changed"; b.Stage != "" { // it has what was there before the step too
			what = "changed so far"
		}
		detail = "nothing"
		if b.Files > 0 {
			detail = tipstaff.CountOfChanges(b.Files, b.Added, b.Removed)
		}
		var codes []string // each once: at the end there are those of all steps
		for _, n := range b.Notices {
			codes = append(codes, n.Code)
		}
		slices.Sort(codes)
		return what, tipstaff.Joined("  ", detail, strings.Join(slices.Compact(codes), "  "))
	case tipstaff.KindCheckFinished:
		return receiptWords(tipstaff.BodyOf[tipstaff.CheckFinished](ev).Receipt)
	case tipstaff.KindDeliveryCommitted:
		b := tipstaff.BodyOf[tipstaff.DeliveryCommitted](ev)
		return "delivered", strings.TrimPrefix(b.Branch, "refs/heads/") + " at " + shortCommit(b.Commit)
	case tipstaff.KindDeliveryApplied:
		if tipstaff.BodyOf[tipstaff.DeliveryApplied](ev).Already {
			return "applied", "the checkout had the changes already"
		}
		return "applied", "the changes are in the checkout, uncommitted"
	case tipstaff.KindDeliverySkipped:
		if tipstaff.BodyOf[tipstaff.DeliverySkipped](ev).Gate == "" {
			return "not delivered", "nothing has changed"
		}
		return "not delivered", "the worktree stays"
	case tipstaff.KindFollowupCreated:
		return "followed up", "by " + tipstaff.BodyOf[tipstaff.FollowupCreated](ev).Child
	case tipstaff.KindFollowupFixedPoint:
		return "fixed point", "nothing that matters differs from " + tipstaff.BodyOf[tipstaff.FollowupFixedPoint](ev).Parent
	}
	return "", ""
}

func receiptWords(r tipstaff.Receipt) (what, detail string) {
	what = "check passed"
	if !r.Passed(r.Tree) {
		what = "check failed"
	}
	where := ""
	if r.In == tipstaff.InWorktree {
		where = "in the worktree"
	}
	return what, tipstaff.Joined("  ", r.Name, where, human(time.Duration(r.Ms)*time.Millisecond), whyFailed(r))
}

// setupWords are those of a command that makes a worktree ready, or ends what was made.
func setupWords(b tipstaff.SetupFinished) (what, detail string) {
	where := ""
	if b.In == tipstaff.InClean {
		where = "for the checks"
	}
	what = b.Phase + " done"
	if !b.Passed(b.Tree) {
		what = b.Phase + " failed"
	}
	return what, tipstaff.Joined("  ", strings.Join(b.Argv, " "), where, human(time.Duration(b.Ms)*time.Millisecond), whyFailed(b.Receipt))
}

// whyFailed is why a command has not passed; "": it has.
func whyFailed(r tipstaff.Receipt) string {
	if r.Passed(r.Tree) {
		return ""
	}
	return cmp.Or(tipstaff.Joined(": ", r.Code, r.Message), fmt.Sprintf("exit code %d", r.ExitCode))
}

// shortCommit is a commit as git shows it to people.
func shortCommit(name string) string { return name[:min(12, len(name))] }

// stageWords are what a record about stages says.
func stageWords(ev *tipstaff.Event) (what, detail string) {
	switch ev.Kind {
	case tipstaff.KindStageStarted:
		if b := tipstaff.BodyOf[tipstaff.StageStarted](ev); b.Attempt > 1 {
			return "started", fmt.Sprintf("attempt %d", b.Attempt)
		}
		return "started", ""
	case tipstaff.KindStageFinished:
		b := tipstaff.BodyOf[tipstaff.StageFinished](ev)
		return stageEnds[b.Outcome], tipstaff.Joined("  ", human(b.Took()), b.Usage.String(), b.Failure())
	case tipstaff.KindStageRetrying:
		b := tipstaff.BodyOf[tipstaff.StageRetrying](ev)
		return "retrying", tipstaff.Joined("  ", fmt.Sprintf("attempt %d in %s", b.NextAttempt, human(time.Duration(b.DelayMs)*time.Millisecond)), b.Failure())
	case tipstaff.KindStageSkipped:
		b := tipstaff.BodyOf[tipstaff.StageSkipped](ev)
		return "skipped", tipstaff.Joined("  ", b.Stage, "without "+strings.Join(b.Unmet, ", "))
	case tipstaff.KindTransition:
		return "route", transitionText(tipstaff.BodyOf[tipstaff.Transitioned](ev))
	case tipstaff.KindCheckpointCreated:
		b := tipstaff.BodyOf[tipstaff.Checkpoint](ev)
		return "checkpoint", tipstaff.Joined("  ", b.ID, strings.Join(b.Labels, ", "))
	case tipstaff.KindFindingRecorded:
		b := tipstaff.BodyOf[tipstaff.FindingRecorded](ev)
		return "finding", tipstaff.Joined("  ", b.Severity, b.Title)
	case tipstaff.KindWaiverRecorded:
		return "waived", ""
	case tipstaff.KindHandoffOverridden:
		return "overridden", ""
	}
	return "", ""
}

var stageEnds = map[string]string{"success": "completed", "error": "failed", "cancelled": "cancelled"}

func transitionText(t tipstaff.Transitioned) string {
	text := t.From + " → " + t.To
	switch {
	case t.Back():
		return fmt.Sprintf("↺ %s  %s  iteration %d", text, t.Reason, t.Iteration)
	case t.Refused():
		return text + "  refused: " + t.Reason
	}
	return text + "  " + t.Reason
}

func stepWords(b tipstaff.PlanStep) (what, detail string) {
	if b.Error != nil {
		detail = b.Error.String()
	}
	if b.LatencyMs > 0 {
		detail = tipstaff.Joined("  ", human(time.Duration(b.LatencyMs)*time.Millisecond), detail)
	}
	return b.Status, detail
}

// recordLine is any record as one line: its number, time, kind and place, and
// the beginning of what it says.
func recordLine(ev tipstaff.Event) string {
	detail := plainDetail(ev)
	return strings.TrimRight(fmt.Sprintf("%5d  %s  %s  %s  %s",
		ev.Seq, ev.At.UTC().Format("2006-01-02 15:04:05.000"), pad(clean(string(ev.Kind)), 19), pad(clean(ev.Path), 16), detail), " ")
}

const maxDetail = 120

// plainDetail is what plainLine says of a record, else the record's body.
func plainDetail(ev tipstaff.Event) string {
	if what, detail := plainWords(&ev); what != "" {
		if ev.Kind == tipstaff.KindPlanStep {
			return clean(tipstaff.Joined("  ", what, detail))
		}
		return clean(detail)
	}
	if !json.Valid(ev.Body) || string(ev.Body) == "{}" {
		return ""
	}
	return fit(clean(string(ev.Body)), maxDetail)
}
