package tipstaff

import (
	"cmp"
	"encoding/json"
	"time"
)

// Run is one execution as surfaces show it: the run_status object.
type Run struct {
	ID        ID        `json:"run_id"`
	Title     string    `json:"title,omitempty"`
	User      string    `json:"user"`
	State     State     `json:"state"`
	Condition Condition `json:"condition"`
	Status    string    `json:"status"`
	Outcome   string    `json:"outcome,omitempty"`
	Program   Program   `json:"program"`
	Step      string    `json:"step,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	HeadSeq   int64     `json:"head_seq"`
	Head      string    `json:"head"`
	Origin    string    `json:"origin"`
	Owner     *Owner    `json:"owner,omitempty"`
	OpenGates []Gate    `json:"open_gates"`
	// DecisionState is none (no gate was ever open), missing (one is undecided) or
	// recorded.
	DecisionState string                     `json:"decision_state"`
	Bounds        BoundsStatus               `json:"bounds"`
	Error         *Failure                   `json:"error,omitempty"`
	Lineage       *Lineage                   `json:"lineage,omitempty"`
	Inputs        map[string]json.RawMessage `json:"inputs,omitempty"`
	Outputs       json.RawMessage            `json:"outputs,omitempty"`
	Lifecycle     string                     `json:"lifecycle,omitempty"`
	// Pipeline is what a run of a pipeline has beside the others; nil: it is none.
	Pipeline *PipelineStatus `json:"pipeline,omitempty"`
	// Turn is what a turn has beside the others; nil: the run is none.
	Turn *TurnStatus `json:"turn,omitempty"`

	// Dir is the folder of the run's files, Project the one that it is about; relative to
	// the workspace if they are inside of it.
	Dir     string            `json:"run_dir,omitempty"`
	Project string            `json:"project_dir,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Control says whether the run may be driven from elsewhere, and ControlReason why not:
	// a fact of the store, whoever drives it now.
	Control       string  `json:"control"`
	ControlReason string  `json:"control_reason,omitempty"`
	Stage         string  `json:"stage,omitempty"`  // of a pipeline: the one that it is in
	Queued        *Queued `json:"queued,omitempty"` // it waits for its turn; nil: it does not
	Host          string  `json:"host,omitempty"`   // the machine that alone can drive it: what it works with is there; "": any

	// LastDrive is how the run was left by whoever drove it last; nil: it has ended.
	LastDrive *LastDrive `json:"last_drive,omitempty"`
	// Doubts are, of an interrupted run, the paths of calls that were sent, and nobody knows
	// what became of them. Their gates open when the run is resumed.
	Doubts   []string     `json:"doubts,omitempty"`
	Workers  []RunWorker  `json:"workers,omitempty"`  // whose processes have not ended
	Delivery *RunDelivery `json:"delivery,omitempty"` // nil: the run delivers nothing
	// Artifacts are what it has brought forth and keeps, the last of them.
	Artifacts []EvidenceFile `json:"artifacts,omitempty"`
	Warnings  []Problem      `json:"warnings,omitempty"`
	Life      *Life          `json:"life,omitempty"`  // nil: nothing has happened to it
	Steps     *StepCount     `json:"steps,omitempty"` // nil: nobody knows
	// Said: there is a conversation in it. [ConversationPlaces] tells where.
	Said bool `json:"said,omitempty"`
}

// StepCount is how many steps of a program have ended well, and how many it has: leaves of a
// plan, stages of a pipeline.
type StepCount struct {
	Done  int `json:"done"`
	Known int `json:"known"`
}

// LastDrive is what is recorded of who drives a run.
type LastDrive struct {
	Kind   Kind      `json:"kind,omitempty"`   // run.queued, .started, .resumed, .parked or .interrupted; "": it was never driven
	Reason string    `json:"reason,omitempty"` // why it was interrupted
	WakeAt time.Time `json:"wake_at,omitzero"` // until when it sleeps, if it is parked
	News   bool      `json:"news,omitempty"`   // since then something was decided, or asked of it
}

// RunWorker is a worker that works for a run.
type RunWorker struct {
	Worker     string `json:"worker"`
	Session    string `json:"session"`
	Invocation string `json:"invocation"`
	Pid        int    `json:"pid"`
	Task       string `json:"task,omitempty"`
	Step       string `json:"step"`
}

// RunDelivery is where the delivery of a run stands, in short: [DeliveryView] tells all.
type RunDelivery struct {
	Kind          string         `json:"kind"`
	Gate          ID             `json:"gate_id,omitzero"`
	Key           string         `json:"key,omitempty"`
	Release       string         `json:"release,omitempty"`
	DefaultAction string         `json:"default_action,omitempty"`
	Diff          *DiffCounts    `json:"diff,omitempty"`
	Base          string         `json:"base,omitempty"`
	Commit        string         `json:"commit,omitempty"`
	Branch        string         `json:"delivery_branch,omitempty"`
	Worktree      *WorktreeState `json:"worktree,omitempty"`
	WorktreeSeq   int64          `json:"worktree_seq,omitempty"` // the record that tells of it
	Outcome       string         `json:"outcome,omitempty"`
	Followup      ID             `json:"followup_run_id,omitzero"`
}

// DiffCounts is how much a run has changed.
type DiffCounts struct {
	Files   int    `json:"files"`
	Added   int64  `json:"added"`
	Removed int64  `json:"removed"`
	Tree    string `json:"tree"`
	Patch   string `json:"patch_digest"`
}

// Queued is where a run stands that waits for its turn.
type Queued struct {
	Place int       `json:"place"` // from 1: that many starts until its own
	Since time.Time `json:"since"`
	// Lacks is what the machine that was asked does not have of what the run needs: it leaves
	// the run to others. "": nothing that is known.
	Lacks string `json:"lacks,omitempty"`
}

// TurnStatus is the conversation that a turn belongs to, and who answers in it.
type TurnStatus struct {
	Session string `json:"session"`
	Number  int64  `json:"number"` // of the turn in its session, from 1
	Agent   string `json:"agent"`
	Model   string `json:"model"`   // as the provider calls it
	Opening string `json:"opening"` // how the first message of the conversation begins
}

// PipelineStatus is where the state of a pipeline run belongs, and how it ended.
type PipelineStatus struct {
	Envelope       string `json:"envelope_id"`
	Request        string `json:"request_id"`
	Thread         string `json:"thread_id"`
	Version        int64  `json:"version"`
	TerminalReason string `json:"terminal_reason,omitempty"` // once it has ended
	StageNumber    int64  `json:"stage_number,omitempty"`    // the round that it is in; 0: it has not begun
}

// Program is what a run executes.
type Program struct {
	Kind   string `json:"kind"` // plan, pipeline, turn
	Name   string `json:"name,omitempty"`
	Digest string `json:"digest"`
	// Revision counts corrections: that of the program in force. 0: the first.
	Revision int `json:"revision,omitempty"`
}

// Owner is the process that drives a run.
type Owner struct {
	Kind        string    `json:"kind"`
	Pid         int       `json:"pid"`
	Alive       bool      `json:"alive"`
	HeartbeatAt time.Time `json:"heartbeat_at"`
}

// Failure is why a run ended as it did.
type Failure struct {
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Bound   string `json:"bound,omitempty"`
	Path    string `json:"path,omitempty"`
}

// How a run may come from another: because that dispatched it; of pipelines also in its
// place, or to do one agent's work on a draft.
const (
	relationDispatch = "dispatch"
	relationFork     = "fork"
	relationRollback = "rollback"
	relationAgent    = "agent"
)

// Lineage says where a run came from, and which runs it has started itself.
type Lineage struct {
	Parent   ID     `json:"parent_run_id,omitzero"`
	Root     ID     `json:"root_run_id,omitzero"` // where its line began
	Relation string `json:"relation,omitempty"`   // fork, rollback, followup, dispatch, agent
	Seq      int64  `json:"seq,omitempty"`
	Children []ID   `json:"children,omitempty"`
}

// Condition belongs to an unfinished run; it is derived, never stored.
type Condition string

const (
	Running     Condition = "running"
	Waiting     Condition = "waiting"
	Interrupted Condition = "interrupted"
)

// Rest is how the last drive of a run that rests must have ended, by its status.
func (r Run) Rest() Driven {
	d := Driven{State: r.State, Outcome: r.Outcome}
	if r.Error != nil {
		d.Reason, d.Code, d.Bound, d.Message = r.Error.Reason, r.Error.Code, r.Error.Bound, r.Error.Message
	}
	switch {
	case r.State.Terminal():
		d.Outcome = cmp.Or(d.Outcome, string(r.State))
	case r.Condition == Interrupted:
		d.Outcome = "interrupted"
	default:
		d.Outcome = "parked"
		for _, g := range r.OpenGates {
			d.Gates = append(d.Gates, g.ID.String())
		}
	}
	return d
}
