package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// said is what a record says to people.
type said struct {
	Text string
	Bad  bool          // it tells of something that failed or was refused
	Took time.Duration // what it tells of; 0: it tells no duration
}

// teller is how records of a kind are shown: in which group, and by which sentence.
type teller struct {
	group string
	tell  func(*tipstaff.Event) said
}

// groups are what the journal is filtered by, in the order in which they are offered.
var groups = []string{"lifecycle", "ownership", "effects", "gates", "agents", "stages", "bounds", "delivery", "other"}

// groupOf is the group of a kind.
func groupOf(k tipstaff.Kind) string {
	if t, ok := tellers[k]; ok {
		return t.group
	}
	return "other"
}

// sentence tells what a record says. A kind that this version does not know is named.
func sentence(e *tipstaff.Event) said {
	if t, ok := tellers[e.Kind]; ok {
		return t.tell(e)
	}
	return said{Text: string(e.Kind)}
}

func plainly(text string) func(*tipstaff.Event) said {
	return func(*tipstaff.Event) said { return said{Text: text} }
}

// of makes a teller of what says a body of one type.
func of[T any](say func(T) said) func(*tipstaff.Event) said {
	return func(e *tipstaff.Event) said { return say(tipstaff.BodyOf[T](e)) }
}

func sayf(format string, args ...any) said { return said{Text: fmt.Sprintf(format, args...)} }

func badf(format string, args ...any) said {
	s := sayf(format, args...)
	s.Bad = true
	return s
}

// and adds a clause, if there is something in it.
func (s said) and(format, text string) said {
	if text != "" {
		s.Text += fmt.Sprintf(format, text)
	}
	return s
}

func (s said) in(ms int64) said {
	s.Took = time.Duration(ms) * time.Millisecond
	return s
}

// brief is the beginning of a digest or a commit.
func brief(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

// tellers is the closed list of kinds.
var tellers = map[tipstaff.Kind]teller{
	tipstaff.KindIntentDraft: {"lifecycle", of(func(b tipstaff.IntentDraft) said {
		return sayf("The run was made for %s", b.User).and(", asked for by %s", b.By).and(", to run a %s", b.ProgramKind)
	})},
	tipstaff.KindIntentCompiled: {"lifecycle", of(func(b tipstaff.IntentCompiled) said {
		return sayf("Intent and program are known").and(": %s", brief(b.ProgramDigest))
	})},
	tipstaff.KindIntentClarify: {"gates", of(func(b tipstaff.IntentClarify) said {
		return sayf("%s asked before the program is accepted, round %d", tipstaff.Plural(len(b.Questions), "question"), b.Round)
	})},
	tipstaff.KindIntentAnswer: {"gates", of(func(b tipstaff.IntentAnswer) said {
		return sayf("The questions were answered").and(" on behalf of %s", b.OnBehalfOf).and(" by way of %s", b.Via)
	})},
	tipstaff.KindIntentAccept: {"lifecycle", of(func(b tipstaff.IntentAccept) said {
		return sayf("The program %s was accepted", brief(b.ProgramDigest)).and(" on behalf of %s", b.OnBehalfOf).and(" by way of %s", b.Via)
	})},
	tipstaff.KindPlanProposed: {"lifecycle", of(func(b tipstaff.PlanProposed) said {
		return sayf("Revision %d of the program takes effect", b.Revision)
	})},
	tipstaff.KindIntentCorrect: {"lifecycle", of(func(b tipstaff.IntentCorrect) said {
		return sayf("The program was corrected to revision %d%s", b.Revision, materially(b.Material)).and(": %s", b.Reason)
	})},
	tipstaff.KindIntentDispatch: {"lifecycle", of(func(b tipstaff.IntentDispatch) said {
		return sayf("The child run %s was started", b.Child).and(" with the skill %s", b.Skill)
	})},
	tipstaff.KindIntentAttest: {"lifecycle", of(func(b tipstaff.IntentAttest) said {
		return sayf("The run completed").and(": %s", b.Outcome)
	})},
	tipstaff.KindIntentFail: {"lifecycle", of(func(b tipstaff.IntentFail) said {
		return badf("The run failed").and(": %s", b.Reason).and(", %s", b.Bound).and(" (%s)", b.Code).and(". %s", b.Message)
	})},
	tipstaff.KindIntentCancel: {"lifecycle", of(func(b tipstaff.IntentCancel) said {
		return badf("The run was cancelled").and(" on behalf of %s", b.OnBehalfOf).and(": %s", b.Reason)
	})},
	tipstaff.KindPolicyGate: {"gates", of(func(b tipstaff.GateOpened) said {
		return sayf("A gate opened").and(" (%s)", strings.ReplaceAll(b.Kind, "_", " ")).and(": %s", b.Question)
	})},
	tipstaff.KindPolicyGateResolve: {"gates", of(func(b tipstaff.GateResolved) said {
		s := sayf("The gate was closed: %s", b.Action)
		s.Bad = b.FailReason != ""
		return s.and(" on behalf of %s", b.OnBehalfOf).and(" by way of %s", b.Via).and(". %s", b.Feedback).and(". %s", b.Note)
	})},

	tipstaff.KindDraftUpdated: {"lifecycle", of(func(b tipstaff.DraftUpdated) said {
		return sayf("The draft was changed to version %d", b.Version).and(" by %s", b.By).and(": %s", strings.Join(b.Changed, ", "))
	})},
	tipstaff.KindRunLaunched: {"ownership", plainly("A process was started to drive the run")},
	tipstaff.KindRunQueued: {"ownership", of(func(b tipstaff.RunQueued) said {
		return sayf("The run waits for its turn: %d of %s taken", b.Driven, tipstaff.Plural(b.Places, "place"))
	})},
	tipstaff.KindRunStarted: {"ownership", of(func(b tipstaff.RunStarted) said {
		return sayf("Process %d began to drive the run", b.Pid).and(" (%s)", b.Kind)
	})},
	tipstaff.KindRunResumed: {"ownership", of(func(b tipstaff.RunStarted) said {
		return sayf("Process %d drives the run on", b.Pid).and(" (%s)", b.Kind)
	})},
	tipstaff.KindRunParked: {"ownership", of(func(b tipstaff.RunParked) said {
		s := sayf("The run was parked")
		if len(b.Gates) > 0 {
			s.Text += ", waiting at " + tipstaff.Plural(len(b.Gates), "gate")
		}
		if !b.WakeAt.IsZero() {
			s.Text += ", until " + (clock{b.WakeAt}).Text()
		}
		return s
	})},
	tipstaff.KindRunInterrupted: {"ownership", of(func(b tipstaff.RunInterrupted) said {
		return badf("Process %d no longer drives the run", b.Pid).and(": %s", b.Reason).and(" (found by %s)", b.FoundBy)
	})},
	tipstaff.KindRunCancelRequested: {"lifecycle", of(func(b tipstaff.RunCancelRequested) said {
		return sayf("%s asked to cancel the run", b.Actor).and(" (%s)", b.Mode).and(": %s", b.Reason)
	})},
	tipstaff.KindRunCorrectionRequested: {"lifecycle", of(func(b tipstaff.RunCorrectionRequested) said {
		return sayf("%s handed in a revised program", b.Actor).and(": %s", b.Reason)
	})},
	tipstaff.KindRunForked: {"lifecycle", of(func(b tipstaff.RunForked) said {
		return sayf("The run goes on from record %d of run %s", b.Seq, b.FromRun).and(", by %s", b.By)
	})},
	tipstaff.KindRunContinued: {"lifecycle", plainly("The history starts afresh from the state that was reached")},

	tipstaff.KindEffectIntended: {"effects", of(func(b tipstaff.Effect) said {
		return sayf("Attempt %d%s is about to start", b.Attempt, calling(b.Name)).and(" (%s)", string(b.Class))
	})},
	tipstaff.KindEffectFailed: {"effects", of(func(b tipstaff.Effect) said {
		s := badf("Attempt %d%s failed%s", b.Attempt, calling(b.Name), wrong(b))
		if !b.RetryAt.IsZero() {
			s.Text += "; the next follows at " + (clock{b.RetryAt.Time}).Text()
		}
		return s
	})},
	tipstaff.KindEffectSuspended: {"effects", of(func(b tipstaff.Effect) said { return sayf("The call%s waits for another run", calling(b.Name)) })},
	tipstaff.KindEffectFinished: {"effects", of(func(b tipstaff.Effect) said {
		s := sayf("The call%s succeeded", calling(b.Name))
		if b.Error != nil {
			s = badf("The call%s failed%s", calling(b.Name), wrong(b))
		}
		if b.Ms != nil {
			s = s.in(*b.Ms)
		}
		return s.and(", as %s decided", b.By)
	})},
	tipstaff.KindEffectLost: {"effects", of(func(b tipstaff.EffectLost) said {
		return badf("Nobody knows how attempt %d ended, which was sent at %s", b.Attempt, (clock{b.Sent.Time}).Text())
	})},
	tipstaff.KindEffectSent: {"effects", of(func(b tipstaff.EffectSent) said {
		return sayf("Attempt %d was handed to the host %s", b.Attempt, b.Host)
	})},
	tipstaff.KindEffectGiven: {"effects", of(func(b tipstaff.EffectGiven) said {
		s := sayf("The host %s brought the result of attempt %d later", b.From, b.Attempt)
		s.Bad = b.Error != nil
		return s
	})},
	tipstaff.KindEffectLate: {"effects", of(func(b tipstaff.EffectLate) said {
		return sayf("A result of the host %s came too late and is not used", b.Host)
	})},
	tipstaff.KindGateTaken: {"gates", of(func(b tipstaff.GateTaken) said { return sayf("The program took the decision of record %d", b.Seq) })},
	tipstaff.KindGroupClosed: {"other", of(func(b tipstaff.GroupClosed) said {
		return badf("A group of branches failed; %s not started", fmt.Sprintf("%d", len(b.Skipped))).and(": %s", strings.Join(b.Skipped, ", "))
	})},
	tipstaff.KindTimerSet: {"other", of(func(b struct{ Until time.Time }) said {
		return sayf("The program sleeps until %s", (clock{b.Until}).Text())
	})},
	tipstaff.KindTimerFired: {"other", plainly("The program woke")},
	tipstaff.KindClockRead:  {"other", plainly("The program asked for the time")},
	tipstaff.KindBoundWarned: {"bounds", of(func(b tipstaff.BoundWarned) said {
		return sayf("Four fifths of %s are used: %s of %s", named(b.Bound), tipstaff.AmountText(b.Bound, b.Used), tipstaff.AmountText(b.Bound, b.Limit))
	})},
	tipstaff.KindBoundRefused: {"bounds", of(func(b tipstaff.BoundRefused) said {
		return badf("The bound %s was reached: %s of %s used", named(b.Bound), tipstaff.AmountText(b.Bound, b.Used), tipstaff.AmountText(b.Bound, b.Limit)).and("; refused: %s", b.Refused)
	})},
	tipstaff.KindBoundExtended: {"bounds", of(func(b tipstaff.BoundExtended) said {
		return sayf("The bound %s was raised by %s", named(b.Bound), tipstaff.AmountText(b.Bound, b.By))
	})},
	tipstaff.KindBoundReserved: {"bounds", plainly("The attempt holds more of the bounds while it runs")},

	tipstaff.KindPlanDrafted: {"lifecycle", of(func(b tipstaff.PlanDrafted) said {
		return sayf("A model wrote the plan %s in %s", brief(b.ProgramDigest), tipstaff.Plural(b.Attempts, "attempt")).and(" (%s)", b.Model)
	})},
	tipstaff.KindPlanStep: {"effects", of(func(b tipstaff.PlanStep) said {
		s := sayf("The node").and(" %s", b.Node).and(" %s", stepWords(b.Status)).in(b.LatencyMs)
		s.Bad = b.Status == tipstaff.StepFailed || b.Status == tipstaff.StepRefused || b.Status == tipstaff.StepUncertain
		if b.Error != nil {
			s = s.and(": %s", b.Error.Code).and(". %s", b.Error.Message)
		}
		return s
	})},
	tipstaff.KindPlanOutput: {"effects", of(func(b tipstaff.PlanOutput) said { return sayf("Printed to %s", b.Channel).and(": %s", b.Chunk) })},

	tipstaff.KindStageStarted: {"stages", of(func(b tipstaff.StageStarted) said {
		return sayf("The stage %s began, visit %d, attempt %d", b.Stage, b.Visit, b.Attempt)
	})},
	tipstaff.KindStageFinished: {"stages", of(func(b tipstaff.StageFinished) said {
		s := sayf("The stage %s ended: %s", b.Stage, b.Outcome).in(b.DurationMs)
		s.Bad = b.Outcome == "error"
		return s.and(" (%s)", b.Code).and(". %s", b.Error)
	})},
	tipstaff.KindStageRetrying: {"stages", of(func(b tipstaff.StageRetrying) said {
		return badf("The stage %s failed (%s) and is tried again, attempt %d", b.Stage, b.Code, b.NextAttempt).and(". %s", b.Error)
	})},
	tipstaff.KindStageSkipped: {"stages", of(func(b tipstaff.StageSkipped) said {
		return sayf("The stage %s was skipped", b.Stage).and("; it needs %s", strings.Join(b.Unmet, ", "))
	})},
	tipstaff.KindTransition: {"stages", of(tellTransition)},
	tipstaff.KindTurnMerged: {"stages", of(func(b tipstaff.TurnMerged) said {
		return sayf("What turn %d brought forth became the pipeline's data", b.Turn)
	})},
	tipstaff.KindCheckpointCreated: {"stages", of(func(b tipstaff.CheckpointCreated) said {
		return sayf("A checkpoint was made").and(" at the stage %s", b.Stage).and(", called %s", strings.Join(b.Labels, ", "))
	})},

	tipstaff.KindAgentStepStarted: {"agents", of(func(b tipstaff.AgentStepStarted) said {
		return sayf("Step %d asks the model %s, with %s and %s", b.Step, b.Model, tipstaff.Plural(b.Messages, "message"), tipstaff.Plural(b.Tools, "tool"))
	})},
	tipstaff.KindAgentMessage: {"agents", of(func(b tipstaff.AgentMessage) said {
		s := sayf("The model answered").and(": %s", b.Text)
		if b.Calls > 0 {
			s.Text += ". It asks for " + tipstaff.Plural(b.Calls, "tool call")
		}
		return s
	})},
	tipstaff.KindAgentRouterDecided: {"agents", of(func(b tipstaff.AgentRouterDecided) said {
		return sayf("This turn offers %s", tipstaff.Plural(b.Tools, "tool")).and(" of %s", strings.Join(b.Toolkits, ", ")).and(" (all of them: %s)", b.Fallback)
	})},
	tipstaff.KindAgentToolCallRequest: {"agents", of(func(b tipstaff.AgentToolCallRequest) said {
		return sayf("The model asks to call %s", b.Title()).and(" with %s", string(b.Arguments))
	})},
	tipstaff.KindAgentApprovalDecided: {"agents", of(func(b tipstaff.AgentApprovalDecided) said {
		s := sayf("The call was decided: %s", b.Decision).and(", by %s", b.By).and(" (rule %s)", b.Rule).and(": %s", b.Reason)
		s.Bad = b.Decision == "deny"
		return s
	})},
	tipstaff.KindAgentToolCallResult: {"agents", of(func(b tipstaff.AgentToolCallResult) said {
		s := sayf("The model was told")
		if b.IsError {
			s = badf("The model was told that the call failed").and(" (%s)", b.Class)
		}
		return s.and(": %s", b.Content).in(b.DurationMS)
	})},
	tipstaff.KindAgentFinish: {"agents", of(func(b tipstaff.AgentFinish) said {
		return sayf("The agent finished after %s and %s", tipstaff.Plural(b.Steps, "step"), tipstaff.Plural(b.ToolCalls, "tool call")).and(": %s", b.Text)
	})},
	tipstaff.KindAgentError: {"agents", of(func(b tipstaff.AgentError) said {
		return badf("The agent stopped after %s: %s", tipstaff.Plural(b.Steps, "step"), b.Code).and(", %s", b.Which).and(". %s", b.Msg)
	})},

	tipstaff.KindFindingRecorded: {"stages", of(func(b tipstaff.FindingRecorded) said {
		return sayf("The stage %s objects", b.Stage).and(" (%s)", b.Severity).and(": %s", b.Title)
	})},
	tipstaff.KindWaiverRecorded: {"gates", of(func(b tipstaff.WaiverRecorded) said {
		return sayf("%s let %s pass", b.Actor, tipstaff.Plural(len(b.FindingIDs), "finding")).and(": %s", b.Reason)
	})},
	tipstaff.KindHandoffOverridden: {"gates", of(func(b tipstaff.HandoffOverridden) said {
		return sayf("%s went on past a rejection of the stage %s", b.Actor, b.Stage).and(": %s", b.Note)
	})},
	tipstaff.KindCommandFinished: {"effects", of(func(b struct {
		Argv []string `json:"argv"`
		Exit int      `json:"exit_code"`
		Ms   int64    `json:"duration_ms"`
	}) said {
		s := sayf("A command ended with code %d", b.Exit).and(": %s", strings.Join(b.Argv, " ")).in(b.Ms)
		s.Bad = b.Exit != 0
		return s
	})},
	tipstaff.KindArtifactRecorded: {"other", of(func(b struct{ Name string }) said { return sayf("An artifact was kept").and(": %s", b.Name) })},

	tipstaff.KindWorktreeCreated: {"delivery", of(func(b tipstaff.WorktreeCreated) said {
		return sayf("A worktree was made").and(" for the branch %s", b.Branch).and(", from %s", brief(b.Base))
	})},
	tipstaff.KindDiffRecorded: {"delivery", of(func(b tipstaff.DiffRecorded) said {
		return sayf("%s changed, %d lines added, %d removed", tipstaff.Plural(b.Files, "file"), b.Added, b.Removed).and(" (%s)", b.Stage)
	})},
	tipstaff.KindCheckFinished: {"delivery", of(func(b tipstaff.CheckFinished) said {
		if b.Passed(b.Tree) {
			return sayf("The check %s passed", b.Name).in(b.Ms)
		}
		return badf("The check %s failed with code %d", b.Name, b.ExitCode).and(" (%s)", b.Code).and(". %s", b.Message).in(b.Ms)
	})},
	tipstaff.KindDeliveryCommitted: {"delivery", of(func(b tipstaff.DeliveryCommitted) said {
		return sayf("The changes are commit %s of the branch %s", brief(b.Commit), b.Branch)
	})},
	tipstaff.KindDeliveryApplied: {"delivery", of(func(b tipstaff.DeliveryApplied) said {
		if b.Already {
			return sayf("The checkout had the changes before")
		}
		return sayf("The changes are in the checkout")
	})},
	tipstaff.KindDeliverySkipped: {"delivery", of(func(b tipstaff.DeliverySkipped) said {
		return sayf("Nothing was delivered").and(", as %s decided", b.By)
	})},
	tipstaff.KindFollowupCreated: {"delivery", of(func(b tipstaff.FollowupCreated) said {
		return sayf("The follow-up %s was made", b.Child).and(" by %s", b.By)
	})},
	tipstaff.KindFollowupFixedPoint: {"delivery", of(func(b tipstaff.FollowupFixedPoint) said {
		return sayf("Nothing has changed since the gate of run %s", b.Parent)
	})},

	tipstaff.KindWorkerStarted: {"agents", of(func(b tipstaff.WorkerStarted) said {
		return sayf("The worker %s was started as process %d", b.Worker, b.Identity.Pid).and(" (%s)", b.CLIVersion).and(", posture %s", b.Posture)
	})},
	tipstaff.KindWorkerEvent: {"agents", of(func(b tipstaff.WorkerEvent) said {
		return sayf("The worker printed").and(" (%s)", b.What).and(": %s", b.Raw)
	})},
	tipstaff.KindWorkerEnded: {"agents", of(func(b tipstaff.WorkerEnded) said {
		s := sayf("The worker ended: %s", b.Outcome).and(", %s", b.Which).and(" (signal %s)", b.Exit.Signal).in(b.DurationMS)
		s.Bad = b.Exit.Code != 0 || b.Exit.Signal != ""
		return s
	})},
	tipstaff.KindTaskStatus: {"agents", of(func(b tipstaff.TaskMoved) said {
		return sayf("The task %s went from %s to %s", b.Task, b.From, b.To).and(", by %s", b.By).and(": %s", b.Why)
	})},
	tipstaff.KindTaskLog: {"agents", of(func(b tipstaff.TaskLogged) said {
		s := sayf("The worker notes").and(" (%s)", b.Level).and(": %s", b.Text)
		s.Bad = b.Level == "error"
		return s
	})},
	tipstaff.KindTaskOutput: {"agents", of(func(b tipstaff.TaskBrought) said {
		return sayf("The task %s brought forth", b.Task).and(" %s", b.Output.Kind).and(": %s", b.Output.Path)
	})},
}

// tellTransition tells of a way from stage to stage, or of one that a limit has closed.
func tellTransition(b tipstaff.Transitioned) said {
	if b.Refused() {
		return badf("The way from %s to %s is closed: %s", b.From, b.To, strings.ReplaceAll(b.Reason, "_", " "))
	}
	if b.From == "" {
		return sayf("The pipeline goes to %s", b.To).and(" (%s)", b.Reason)
	}
	return sayf("The pipeline goes from %s to %s", b.From, b.To).and(" (%s)", strings.ReplaceAll(b.Reason, "_", " "))
}

func calling(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}

// wrong is the error of an effect as a clause.
func wrong(b tipstaff.Effect) string {
	if b.Error == nil {
		return ""
	}
	return ": " + b.Error.Code + ". " + b.Error.Message
}

func materially(material *bool) string {
	if material == nil || !*material {
		return ""
	}
	return ", which is material"
}

func named(bound string) string { return strings.ReplaceAll(bound, "_", " ") }

// stepWords is the status of a node as a verb.
func stepWords(status string) string {
	switch status {
	case tipstaff.StepStarted:
		return "began"
	case tipstaff.StepRefused, tipstaff.StepCancelled:
		return "was " + status
	case tipstaff.StepUncertain:
		return "is in doubt: nobody knows whether it happened"
	case tipstaff.StepCarried:
		return "was completed by an earlier revision"
	}
	return status
}
