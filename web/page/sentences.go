package page

import (
	"time"

	"github.com/tipstaff/tipstaff"
)

// nothing is the body of a kind whose sentence is always the same.
type nothing struct{}

// onBehalf ends the sentence of something that somebody has decided.
const onBehalf = `{{with .OnBehalfOf}} on behalf of {{.}}{{end}}{{with .Via}} by way of {{.}}{{end}}`

// tellers is the closed list of kinds.
var tellers = map[tipstaff.Kind]teller{
	tipstaff.KindIntentDraft:    tells[tipstaff.IntentDraft]("lifecycle", `The run was made for {{.User}}{{with .By}}, asked for by {{.}}{{end}}{{with .ProgramKind}}, to run a {{.}}{{end}}`),
	tipstaff.KindIntentCompiled: tells[tipstaff.IntentCompiled]("lifecycle", `Intent and program are known{{with brief .ProgramDigest}}: {{.}}{{end}}`),
	tipstaff.KindIntentClarify:  tells[tipstaff.IntentClarify]("gates", `{{plural (len .Questions) "question"}} asked before the program is accepted, round {{.Round}}`),
	tipstaff.KindIntentAnswer:   tells[tipstaff.IntentAnswer]("gates", `The questions were answered`+onBehalf),
	tipstaff.KindIntentAccept:   tells[tipstaff.IntentAccept]("lifecycle", `The program {{brief .ProgramDigest}} was accepted`+onBehalf),
	tipstaff.KindPlanProposed:   tells[tipstaff.PlanProposed]("lifecycle", `Revision {{.Revision}} of the program takes effect`),
	tipstaff.KindIntentCorrect:  tells[tipstaff.IntentCorrect]("lifecycle", `The program was corrected to revision {{.Revision}}{{if holds .Material}}, which is material{{end}}{{with .Reason}}: {{.}}{{end}}`),
	tipstaff.KindIntentDispatch: tells[tipstaff.IntentDispatch]("lifecycle", `The child run {{.Child}} was started{{with .Skill}} with the skill {{.}}{{end}}`),
	tipstaff.KindIntentAttest:   tells[tipstaff.IntentAttest]("lifecycle", `The run completed{{with .Outcome}}: {{.}}{{end}}`),
	tipstaff.KindIntentFail:     fails[tipstaff.IntentFail]("lifecycle", `The run failed{{with .Reason}}: {{.}}{{end}}{{with .Bound}}, {{.}}{{end}}{{with .Code}} ({{.}}){{end}}{{with .Message}}. {{.}}{{end}}`),
	tipstaff.KindIntentCancel:   fails[tipstaff.IntentCancel]("lifecycle", `The run was cancelled{{with .OnBehalfOf}} on behalf of {{.}}{{end}}{{with .Reason}}: {{.}}{{end}}`),
	tipstaff.KindPolicyGate:     tells[tipstaff.GateOpened]("gates", `A gate opened{{with .Kind}} ({{words .}}){{end}}{{with .Question}}: {{.}}{{end}}`),
	tipstaff.KindPolicyGateResolve: judges("gates", `The gate was closed: {{.Action}}`+onBehalf+`{{with .Feedback}}. {{.}}{{end}}{{with .Note}}. {{.}}{{end}}`,
		func(b *tipstaff.GateResolved) (bool, int64) { return b.FailReason != "", 0 }),

	tipstaff.KindDraftUpdated:   tells[tipstaff.DraftUpdated]("lifecycle", `The draft was changed to version {{.Version}}{{with .By}} by {{.}}{{end}}{{with join .Changed}}: {{.}}{{end}}`),
	tipstaff.KindRunLaunched:    tells[nothing]("ownership", `A process was started to drive the run`),
	tipstaff.KindRunQueued:      tells[tipstaff.RunQueued]("ownership", `The run waits for its turn: {{.Driven}} of {{plural .Places "place"}} taken`),
	tipstaff.KindRunStarted:     tells[tipstaff.RunStarted]("ownership", `Process {{.Pid}} began to drive the run{{with .Kind}} ({{.}}){{end}}`),
	tipstaff.KindRunResumed:     tells[tipstaff.RunStarted]("ownership", `Process {{.Pid}} drives the run on{{with .Kind}} ({{.}}){{end}}`),
	tipstaff.KindRunParked:      tells[tipstaff.RunParked]("ownership", `The run was parked{{with len .Gates}}, waiting at {{plural . "gate"}}{{end}}{{if not .WakeAt.IsZero}}, until {{clock .WakeAt}}{{end}}`),
	tipstaff.KindRunInterrupted: fails[tipstaff.RunInterrupted]("ownership", `Process {{.Pid}} no longer drives the run{{with .Reason}}: {{.}}{{end}}{{with .FoundBy}} (found by {{.}}){{end}}`),
	tipstaff.KindRunCancelRequested: tells[tipstaff.RunCancelRequested]("lifecycle",
		`{{.Actor}} asked to cancel the run{{with .Mode}} ({{.}}){{end}}{{with .Reason}}: {{.}}{{end}}`),
	tipstaff.KindRunCorrectionRequested: tells[tipstaff.RunCorrectionRequested]("lifecycle", `{{.Actor}} handed in a revised program{{with .Reason}}: {{.}}{{end}}`),
	tipstaff.KindRunForked:              tells[tipstaff.RunForked]("lifecycle", `The run goes on from record {{.Seq}} of run {{.FromRun}}{{with .By}}, by {{.}}{{end}}`),
	tipstaff.KindRunContinued:           tells[nothing]("lifecycle", `The history starts afresh from the state that was reached`),

	tipstaff.KindEffectIntended: tells[tipstaff.Effect]("effects", `Attempt {{.Attempt}}{{with .Name}} of {{.}}{{end}} is about to start{{with .Class}} ({{.}}){{end}}`),
	tipstaff.KindEffectFailed: fails[tipstaff.Effect]("effects", `Attempt {{.Attempt}}{{with .Name}} of {{.}}{{end}} failed{{with .Error}}: {{.Code}}. {{.Message}}{{end}}`+
		`{{if not .RetryAt.IsZero}}; the next follows at {{clock .RetryAt.Time}}{{end}}`),
	tipstaff.KindEffectSuspended: tells[tipstaff.Effect]("effects", `The call{{with .Name}} of {{.}}{{end}} waits for another run`),
	tipstaff.KindEffectFinished: judges("effects", `The call{{with .Name}} of {{.}}{{end}} {{with .Error}}failed: {{.Code}}. {{.Message}}{{else}}succeeded{{end}}{{with .By}}, as {{.}} decided{{end}}`,
		func(b *tipstaff.Effect) (bad bool, ms int64) {
			if b.Ms != nil {
				ms = *b.Ms
			}
			return b.Error != nil, ms
		}),
	tipstaff.KindEffectLost: fails[tipstaff.EffectLost]("effects", `Nobody knows how attempt {{.Attempt}} ended, which was sent at {{clock .Sent.Time}}`),
	tipstaff.KindEffectSent: tells[tipstaff.EffectSent]("effects", `Attempt {{.Attempt}} was handed to the host {{.Host}}`),
	tipstaff.KindEffectGiven: judges("effects", `The host {{.From}} brought the result of attempt {{.Attempt}} later`,
		func(b *tipstaff.EffectGiven) (bool, int64) { return b.Error != nil, 0 }),
	tipstaff.KindEffectLate:  tells[tipstaff.EffectLate]("effects", `A result of the host {{.Host}} came too late and is not used`),
	tipstaff.KindGateTaken:   tells[tipstaff.GateTaken]("gates", `The program took the decision of record {{.Seq}}`),
	tipstaff.KindGroupClosed: fails[tipstaff.GroupClosed]("other", `A group of branches failed; {{len .Skipped}} not started{{with join .Skipped}}: {{.}}{{end}}`),
	tipstaff.KindTimerSet:    tells[struct{ Until time.Time }]("other", `The program sleeps until {{clock .Until}}`),
	tipstaff.KindTimerFired:  tells[nothing]("other", `The program woke`),
	tipstaff.KindClockRead:   tells[nothing]("other", `The program asked for the time`),
	tipstaff.KindBoundWarned: tells[tipstaff.BoundWarned]("bounds", `Four fifths of {{words .Bound}} are used: {{amount .Bound .Used}} of {{amount .Bound .Limit}}`),
	tipstaff.KindBoundRefused: fails[tipstaff.BoundRefused]("bounds",
		`The bound {{words .Bound}} was reached: {{amount .Bound .Used}} of {{amount .Bound .Limit}} used{{with .Refused}}; refused: {{.}}{{end}}`),
	tipstaff.KindBoundExtended: tells[tipstaff.BoundExtended]("bounds", `The bound {{words .Bound}} was raised by {{amount .Bound .By}}`),
	tipstaff.KindBoundReserved: tells[nothing]("bounds", `The attempt holds more of the bounds while it runs`),
	tipstaff.KindBoundUsed:     tells[tipstaff.BoundUsed]("bounds", `The attempt has used so far{{range $name, $n := .SoFar}} {{amount $name $n}} {{words $name}}{{end}}`),

	tipstaff.KindPlanDrafted: tells[tipstaff.PlanDrafted]("lifecycle", `A model wrote the plan {{brief .ProgramDigest}} in {{plural .Attempts "attempt"}}{{with .Model}} ({{.}}){{end}}`),
	tipstaff.KindPlanStep: judges("effects", `The node{{with .Node}} {{.}}{{end}}{{with step .Status}} {{.}}{{end}}{{with .Error}}{{with .Code}}: {{.}}{{end}}{{with .Message}}. {{.}}{{end}}{{end}}`,
		func(b *tipstaff.PlanStep) (bool, int64) {
			return b.Status == tipstaff.StepFailed || b.Status == tipstaff.StepRefused || b.Status == tipstaff.StepUncertain, b.LatencyMs
		}),
	tipstaff.KindPlanOutput: tells[tipstaff.PlanOutput]("effects", `Printed to {{.Channel}}{{with .Chunk}}: {{.}}{{end}}`),

	tipstaff.KindStageStarted: tells[tipstaff.StageStarted]("stages", `The stage {{.Stage}} began, visit {{.Visit}}, attempt {{.Attempt}}`),
	tipstaff.KindStageFinished: judges("stages", `The stage {{.Stage}} ended: {{.Outcome}}{{with .Code}} ({{.}}){{end}}{{with .Error}}. {{.}}{{end}}`,
		func(b *tipstaff.StageFinished) (bool, int64) { return b.Outcome == "error", b.DurationMs }),
	tipstaff.KindStageRetrying: fails[tipstaff.StageRetrying]("stages", `The stage {{.Stage}} failed ({{.Code}}) and is tried again, attempt {{.NextAttempt}}{{with .Error}}. {{.}}{{end}}`),
	tipstaff.KindStageSkipped:  tells[tipstaff.StageSkipped]("stages", `The stage {{.Stage}} was skipped{{with join .Unmet}}; it needs {{.}}{{end}}`),
	tipstaff.KindTransition: judges("stages", `{{if .Refused}}The way from {{.From}} to {{.To}} is closed: {{words .Reason}}`+
		`{{else}}The pipeline goes {{with .From}}from {{.}} {{end}}to {{.To}}{{with .Reason}} ({{words .}}){{end}}{{end}}`,
		func(b *tipstaff.Transitioned) (bool, int64) { return b.Refused(), 0 }),
	tipstaff.KindTurnMerged: tells[tipstaff.TurnMerged]("stages", `What turn {{.Turn}} brought forth became the pipeline's data`),
	tipstaff.KindCheckpointCreated: tells[tipstaff.CheckpointCreated]("stages",
		`A checkpoint was made{{with .Stage}} at the stage {{.}}{{end}}{{with join .Labels}}, called {{.}}{{end}}`),

	tipstaff.KindAgentStepStarted: tells[tipstaff.AgentStepStarted]("agents", `Step {{.Step}} asks the model {{.Model}}, with {{plural .Messages "message"}} and {{plural .Tools "tool"}}`),
	tipstaff.KindAgentMessage:     tells[tipstaff.AgentMessage]("agents", `The model answered{{with .Text}}: {{.}}{{end}}{{if gt .Calls 0}}. It asks for {{plural .Calls "tool call"}}{{end}}`),
	tipstaff.KindAgentRouterDecided: tells[tipstaff.AgentRouterDecided]("agents",
		`This turn offers {{plural .Tools "tool"}}{{with join .Toolkits}} of {{.}}{{end}}{{with .Fallback}} (all of them: {{.}}){{end}}`),
	tipstaff.KindAgentToolCallRequest: tells[tipstaff.AgentToolCallRequest]("agents", `The model asks to call {{.Title}}{{with .Arguments}} with {{printf "%s" .}}{{end}}`),
	tipstaff.KindAgentApprovalDecided: judges("agents",
		`The call was decided: {{.Decision}}{{with .By}}, by {{.}}{{end}}{{with .Rule}} (rule {{.}}){{end}}{{with .Reason}}: {{.}}{{end}}`,
		func(b *tipstaff.AgentApprovalDecided) (bool, int64) { return b.Decision == "deny", 0 }),
	tipstaff.KindAgentToolCallResult: judges("agents", `The model was told{{if .IsError}} that the call failed{{with .Class}} ({{.}}){{end}}{{end}}{{with .Content}}: {{.}}{{end}}`,
		func(b *tipstaff.AgentToolCallResult) (bool, int64) { return b.IsError, b.DurationMS }),
	tipstaff.KindAgentFinish: tells[tipstaff.AgentFinish]("agents", `The agent finished after {{plural .Steps "step"}} and {{plural .ToolCalls "tool call"}}{{with .Text}}: {{.}}{{end}}`),
	tipstaff.KindAgentError:  fails[tipstaff.AgentError]("agents", `The agent stopped after {{plural .Steps "step"}}: {{.Code}}{{with .Which}}, {{.}}{{end}}{{with .Msg}}. {{.}}{{end}}`),

	tipstaff.KindFindingRecorded:   tells[tipstaff.FindingRecorded]("stages", `The stage {{.Stage}} objects{{with .Severity}} ({{.}}){{end}}{{with .Title}}: {{.}}{{end}}`),
	tipstaff.KindWaiverRecorded:    tells[tipstaff.WaiverRecorded]("gates", `{{.Actor}} let {{plural (len .FindingIDs) "finding"}} pass{{with .Reason}}: {{.}}{{end}}`),
	tipstaff.KindHandoffOverridden: tells[tipstaff.HandoffOverridden]("gates", `{{.Actor}} went on past a rejection of the stage {{.Stage}}{{with .Note}}: {{.}}{{end}}`),

	tipstaff.KindWorktreeCreated:  tells[tipstaff.WorktreeCreated]("delivery", `A worktree was made{{with .Branch}} for the branch {{.}}{{end}}{{with brief .Base}}, from {{.}}{{end}}`),
	tipstaff.KindWorktreePrepared: tells[tipstaff.WorktreePrepared]("delivery", `The worktree was made ready{{with .String}}: {{.}}{{end}}`),
	tipstaff.KindSetupFinished: judges("delivery",
		`{{if eq .Phase "teardown"}}The teardown{{else}}The set-up{{end}} {{range .Argv}}{{.}} {{end}}{{if eq .In "clean"}}for the checks {{end}}{{if .Passed .Tree}}succeeded{{else}}failed with code {{.ExitCode}}{{with .Code}} ({{.}}){{end}}{{with .Message}}. {{.}}{{end}}{{end}}`,
		func(b *tipstaff.SetupFinished) (bool, int64) { return !b.Passed(b.Tree), b.Ms }),
	tipstaff.KindDiffRecorded: tells[tipstaff.DiffRecorded]("delivery", `{{plural .Files "file"}} changed, {{.Added}} lines added, {{.Removed}} removed{{with .Stage}} ({{.}}){{end}}`),
	tipstaff.KindCheckFinished: judges("delivery",
		`The check {{.Name}} {{if eq .In "worktree"}}in the worktree {{end}}{{if .Passed .Tree}}passed{{else}}failed with code {{.ExitCode}}{{with .Code}} ({{.}}){{end}}{{with .Message}}. {{.}}{{end}}{{end}}`,
		func(b *tipstaff.CheckFinished) (bool, int64) { return !b.Passed(b.Tree), b.Ms }),
	tipstaff.KindDeliveryCommitted:  tells[tipstaff.DeliveryCommitted]("delivery", `The changes are commit {{brief .Commit}} of the branch {{.Branch}}`),
	tipstaff.KindDeliveryApplied:    tells[tipstaff.DeliveryApplied]("delivery", `{{if .Already}}The checkout had the changes before{{else}}The changes are in the checkout{{end}}`),
	tipstaff.KindDeliverySkipped:    tells[tipstaff.DeliverySkipped]("delivery", `Nothing was delivered{{with .By}}, as {{.}} decided{{end}}`),
	tipstaff.KindFollowupCreated:    tells[tipstaff.FollowupCreated]("delivery", `The follow-up {{.Child}} was made{{with .By}} by {{.}}{{end}}`),
	tipstaff.KindFollowupFixedPoint: tells[tipstaff.FollowupFixedPoint]("delivery", `Nothing has changed since the gate of run {{.Parent}}`),

	tipstaff.KindWorkerStarted: tells[tipstaff.WorkerStarted]("agents",
		`The worker {{.Worker}} was started as process {{.Identity.Pid}}{{with .CLIVersion}} ({{.}}){{end}}{{with .Posture}}, posture {{.}}{{end}}`),
	tipstaff.KindWorkerEvent: tells[tipstaff.WorkerEvent]("agents", `The worker printed{{with .What}} ({{.}}){{end}}{{with .Raw}}: {{.}}{{end}}`),
	tipstaff.KindWorkerEnded: judges("agents", `The worker ended: {{.Outcome}}{{with .Which}}, {{.}}{{end}}{{with .Exit.Signal}} (signal {{.}}){{end}}`,
		func(b *tipstaff.WorkerEnded) (bool, int64) {
			return b.Exit.Code != 0 || b.Exit.Signal != "", b.DurationMS
		}),
	tipstaff.KindTaskStatus: tells[tipstaff.TaskMoved]("agents", `The task {{.Task}} went from {{.From}} to {{.To}}{{with .By}}, by {{.}}{{end}}{{with .Why}}: {{.}}{{end}}`),
	tipstaff.KindTaskLog: judges("agents", `The worker notes{{with .Level}} ({{.}}){{end}}{{with .Text}}: {{.}}{{end}}`,
		func(b *tipstaff.TaskLogged) (bool, int64) { return b.Level == "error", 0 }),
	tipstaff.KindTaskOutput: tells[tipstaff.TaskBrought]("agents", `The task {{.Task}} brought forth{{with .Output.Kind}} {{.}}{{end}}{{with .Output.Path}}: {{.}}{{end}}`),
}
