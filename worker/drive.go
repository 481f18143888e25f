package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Activities of a drive.
const (
	TaskActivity   = "worker.task"   // makes the task that stands for a step or stage
	SpawnActivity  = "worker.spawn"  // an invocation that begins a session
	ResumeActivity = "worker.resume" // one that goes on with it
)

// Settled is who does a piece of work and how, as it was chosen when its run was made.
// It is frozen with the run.
type Settled struct {
	Worker        string          `json:"worker"`
	Type          string          `json:"type"`
	Config        json.RawMessage `json:"config"` // of the worker, as the manifest has it
	Role          string          `json:"role,omitempty"`
	Preamble      string          `json:"preamble,omitempty"` // what every spawn begins with: the role and the protocol
	Model         string          `json:"model,omitempty"`
	Posture       Posture         `json:"posture"`
	Settings      string          `json:"settings,omitempty"`
	Limits        Limits          `json:"limits"`
	OnInterrupt   string          `json:"on_interrupt,omitempty"` // resume: an invocation that was broken off goes on by itself
	Review        string          `json:"review,omitempty"`       // none, person, or a role
	Reviewer      *Settled        `json:"reviewer,omitempty"`     // of a role
	OnFailure     string          `json:"on_worker_failure,omitempty"`
	OnBound       string          `json:"on_bound,omitempty"`
	MaxIterations int             `json:"max_iterations,omitempty"`
	Policy        string          `json:"policy,omitempty"` // digest of the frozen policy
	// Counted are the bounds of calls that somebody has set: calls that a CLI makes inside
	// itself count against these.
	Counted []string `json:"counted,omitempty"`
}

// Charged is what counts of the calls that CLIs have made: those against bounds that
// somebody has set.
func (s Settled) Charged(u tipstaff.StageUsage) tipstaff.StageUsage {
	if !slices.Contains(s.Counted, tipstaff.BoundModelCalls) {
		u.LLMCalls = 0
	}
	if !slices.Contains(s.Counted, tipstaff.BoundToolCalls) {
		u.ToolCalls = 0
	}
	return u
}

// Words of documents.
const (
	AskOnFailure   = "ask"
	AskOnBound     = "ask"
	ResumeByItself = "resume"
)

// Assignment is what a step, a stage or a task wants of a worker.
type Assignment struct {
	Settled
	Task    string // the task that the run serves; "": one is made
	Brief          // what it is told
	Schema  json.RawMessage
	Effect  flow.Class // "": once
	Timeout time.Duration
	Reserve flow.Use
	Keep    bool  // the session outlives this visit
	Kept    *Kept // what an earlier visit has left; nil: nothing
	// Asks reports whether a person is asked before an invocation at a path that may change
	// things. nil: nobody is.
	Asks func(path string) bool `json:"-"`

	verdict bool // it must give one: it reviews
	parent  string
}

// Kept is what a visit leaves for the next one that goes on in its session.
type Kept struct {
	Task      string `json:"task"`
	Path      string `json:"path"` // of the visit that began the session
	Session   int    `json:"session"`
	Iteration int    `json:"iteration"`
}

// Output is what the work came to.
type Output struct {
	Text    string
	Data    json.RawMessage // nil: none
	Verdict *Verdict
	Usage   tipstaff.StageUsage // of calls inside the CLIs
	Notices []tipstaff.Notice   // of what was changed beside the directory
	Kept    *Kept
}

// failure is the error of work that came to nothing. Its code says how an invocation ended
// (worker_<outcome>), or why none was begun.
func failure(code, message string) *flow.Error { return &flow.Error{Code: code, Message: message} }

const (
	codeDenied         = "gate_denied"     // of a question which nobody wants to answer
	codeApprovalDenied = "approval_denied" // of work that a person did not let begin
)

// isFailure tells work that came to nothing from a run that cannot go on.
func isFailure(err error) bool {
	var e *flow.Error
	return errors.As(err, &e) && !slices.Contains([]string{flow.CodeBoundExceeded, flow.CodeDeadline, flow.CodeTimeout, flow.CodeInDoubt, codeDenied, codeApprovalDenied}, e.Code)
}

// Input is what the record of an invocation holds. Nothing in it differs by host, by
// version of the CLI or in a fork: a replay compares it.
type Input struct {
	Worker    string  `json:"worker"`
	Session   int     `json:"session"` // number of the session at its path
	Prompt    string  `json:"prompt"`  // digest
	Model     string  `json:"model,omitempty"`
	Posture   Posture `json:"posture"`
	Limits    Limits  `json:"limits"`
	Grants    []Grant `json:"grants,omitempty"`
	Role      string  `json:"role,omitempty"` // digest of the preamble
	Policy    string  `json:"policy,omitempty"`
	Iteration int     `json:"iteration"`
}

// Local is what an invocation is given besides.
type Local struct {
	Assignment
	TaskID    string
	Iteration int
	Prompt    string // what is sent
	Again     string // what a session that cannot be resumed is begun with
	Path      string // of the session, without its number
	Session   int
	Grants    []Grant
}

// drive is one piece of work under way.
type drive struct {
	Assignment
	fc        flow.Context
	task      string
	status    tipstaff.TaskStatus
	iteration int
	calls     int    // invocations so far
	path      string // of the session
	session   int    // its number there
	begun     bool   // an invocation of the session has come to something
	nudged    bool   // in this iteration
	retried   bool   // after a conflict of sessions
	worked    bool   // something was said in this session
	renewed   bool   // a session in which nothing was said was lost, and begun again
	last      string // text
	allowed   bool   // a person has let it begin
	usage     tipstaff.StageUsage
	notices   []tipstaff.Notice
}

// next is what the next invocation is to do.
type next struct {
	text   string
	resume bool
	grants []Grant
}

// Drive has a worker do a piece of work. It decides on recorded results alone, never on
// the row of the task.
func Drive(fc flow.Context, a Assignment) (Output, error) {
	d := &drive{Assignment: a, fc: fc, path: fc.Path(), session: 1, iteration: 1, status: tipstaff.TaskInProgress}
	d.MaxIterations = cmp.Or(d.MaxIterations, tipstaff.TaskIterations)
	if err := d.open(); err != nil {
		return Output{}, err
	}
	n := next{text: d.spawnPrompt()}
	if a.Kept != nil {
		n = next{text: a.Description, resume: true}
	}
	out, err := d.work(n)
	out.Usage, out.Notices = d.usage, d.notices
	if err != nil && !flow.Parked(err) {
		out.Kept = nil
		why := err.Error()
		var halted *Halted
		if errors.As(err, &halted) || errors.Is(err, flow.ErrCancelled) {
			why = "the run ends"
		}
		d.move(tipstaff.TaskMoved{To: tipstaff.TaskAbandoned, By: bySystem, Why: why})
	}
	return out, err
}

// bySystem is who moves a task when the run itself does.
const bySystem = string(tipstaff.BySystem)

// open finds the task: the run's, that of an earlier visit, or one that is made for this
// path.
func (d *drive) open() error {
	switch {
	case d.Kept != nil:
		d.task, d.path, d.session, d.begun = d.Kept.Task, d.Kept.Path, d.Kept.Session, true
		d.worked = true
		d.iteration = d.Kept.Iteration + 1
		d.status = tipstaff.TaskNeedsReview
		d.move(tipstaff.TaskMoved{To: tipstaff.TaskInProgress, By: bySystem, Why: "visited again"})
		return nil
	case d.Assignment.Task != "":
		d.task = d.Assignment.Task
		return nil
	}
	task := tipstaff.Task{Name: cmp.Or(d.Name, d.fc.Path()), Description: d.Description, Role: cmp.Or(d.Role, tipstaff.TaskRole), Worker: d.Worker,
		Review: cmp.Or(d.Review, tipstaff.ReviewNone), MaxIterations: d.MaxIterations, Inputs: d.Inputs, Parent: d.parent}
	var err error
	d.task, err = flow.Do[string](d.fc, flow.Call{Key: "task", Name: TaskActivity, Class: flow.Idempotent, Input: flow.JSON(task)})
	return err
}

// move changes the task's status; to stay as it is needs no record. What was reported
// stays reported, whatever its invocation came to.
func (d *drive) move(m tipstaff.TaskMoved) {
	if d.status == m.To && m.Feedback == nil || d.status.Ended() || d.status == tipstaff.TaskNeedsReview && m.To == tipstaff.TaskPaused {
		return
	}
	m.Task, m.From, m.Iteration = d.task, d.status, d.iteration
	d.status = m.To
	d.fc.Emit(flow.Event{Kind: string(tipstaff.KindTaskStatus), Body: m})
}

// spawnPrompt is what a session begins with.
func (d *drive) spawnPrompt() string {
	b := d.Brief
	b.Iteration = d.iteration
	return d.Preamble + b.Text()
}

// work invokes the worker until its task is done or has failed.
func (d *drive) work(n next) (Output, error) {
	for {
		res, err := d.invoke(n)
		var refused *flow.Error
		if isFailure(err) && errors.As(err, &refused) {
			n, err = d.failed(n, refused.Code, Result{Outcome: StartFailed, Text: refused.Message})
			if err != nil {
				return Output{}, err
			}
			continue
		}
		if err != nil {
			return Output{}, err
		}
		done, follow, err := d.judge(n, res)
		if err != nil {
			return Output{}, err
		}
		if done {
			var out Output
			if out, follow, err = d.review(res); err != nil || follow == nil {
				return out, err
			}
		}
		n = *follow
	}
}

// invoke makes one invocation.
func (d *drive) invoke(n next) (res Result, err error) {
	d.calls++
	at := d.fc.At(fmt.Sprintf("worker#%d", d.calls))
	if err := d.leave(at, n.text); err != nil {
		return res, err
	}
	name := SpawnActivity
	if n.resume {
		name = ResumeActivity
	}
	call := flow.Call{Name: name, Class: d.Effect, Timeout: d.Timeout,
		Input: flow.JSON(Input{Worker: d.Worker, Session: d.session, Prompt: digestOf(n.text), Model: d.Model, Posture: d.Posture, Limits: d.Limits,
			Grants: n.grants, Role: digestOf(d.Preamble), Policy: d.Policy, Iteration: d.iteration}),
		Local: &Local{Assignment: d.Assignment, TaskID: d.task, Iteration: d.iteration, Prompt: n.text, Again: d.again(n), Path: d.path, Session: d.session, Grants: n.grants},
	}
	if d.calls == 1 {
		call.Reserve = d.Reserve
	}
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskInProgress, By: bySystem, Why: "the worker goes on"})
	r, err := at.Do(call)
	if err != nil {
		return res, err
	}
	if r.By != "" {
		var g Given
		err = flow.Decode(at, call, r, &g)
		res = g.result()
	} else {
		err = flow.Decode(at, call, r, &res)
	}
	if err != nil {
		return res, err
	}
	if r.By != "" { // the task waited for it
		d.status = tipstaff.TaskPaused
		if res.Report.Status == tipstaff.TaskNeedsReview {
			d.move(tipstaff.TaskMoved{To: tipstaff.TaskNeedsReview, By: r.By, Why: "its result was given"})
		}
	}
	d.count(res)
	d.notices = append(d.notices, res.Notices...)
	d.begun = d.begun || res.SessionID != ""
	d.worked = d.worked || res.Steps > 0
	d.last = cmp.Or(res.Text, d.last)
	if res.Report.Status != "" {
		d.status = res.Report.Status
	}
	return res, nil
}

// leave asks a person, where the run has to, whether the work may begin. Later invocations for
// the same work were allowed with it.
func (d *drive) leave(at flow.Context, prompt string) error {
	if d.allowed || d.Posture == ReadOnly || d.Asks == nil || !d.Asks(at.Path()) {
		return nil
	}
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskPaused, By: bySystem, Why: "it waits for leave to begin", Pause: &tipstaff.TaskPause{Reason: "approval"}})
	dec, err := at.Wait(d.leaveGate(prompt))
	if err != nil {
		return err
	}
	if dec.Action != actionAllow {
		return &flow.Error{Code: codeApprovalDenied, Message: fmt.Sprintf("%s did not let worker %s begin", dec.By, d.Worker), NotSent: true}
	}
	d.allowed = true
	return nil
}

// again is what a session is begun with that cannot be resumed, because it is another
// run's: all that was said, in short.
func (d *drive) again(n next) string {
	if !n.resume {
		return n.text
	}
	return textAgain(d.spawnPrompt(), d.last, n.text)
}

func (d *drive) count(res Result) {
	d.usage.LLMCalls += int64(res.Steps)
	d.usage.ToolCalls += int64(res.ToolCalls)
	d.usage.TokensIn += res.Usage.InputTokens
	d.usage.TokensOut += res.Usage.OutputTokens
}

// judge says whether the work is done, or what the next invocation is to do.
func (d *drive) judge(n next, res Result) (done bool, follow *next, err error) {
	reported := res.Report.Status == tipstaff.TaskNeedsReview
	switch {
	case res.Bound != "" && res.Held: // the next invocation asks for an extension
		return false, &next{text: textStopped, resume: true, grants: n.grants}, nil
	case res.Bound != "":
		return false, nil, &flow.Error{Code: flow.CodeBoundExceeded, Bound: res.Bound, Message: "what the run has left of " + res.Bound + " was used by worker " + d.Worker}
	}
	switch res.Outcome {
	case Reported:
		return true, nil, nil
	case Cancelled:
		return false, nil, flow.ErrCancelled
	case Approval:
		follow, err = d.approvals(res)
		return false, follow, err
	case Paused:
		follow, err = d.question(res)
		return false, follow, err
	case SessionLost:
		if n.resume && !d.worked && !d.renewed { // nothing is lost with it: Gemini CLI keeps no session in which nothing was said
			d.renewed, d.begun = true, false
			d.session++
			return false, &next{text: d.again(n), grants: n.grants}, nil
		}
	case SessionConflict:
		if !d.retried {
			d.retried = true
			return false, &next{text: n.text, resume: true, grants: n.grants}, nil
		}
	case Failed, Exited, Truncated:
		if reported {
			return true, nil, nil
		}
	case NoReport:
		if !d.nudged {
			d.nudged = true
			return false, &next{text: textNudge, resume: true}, nil
		}
	}
	again, err := d.failed(n, "worker_"+string(res.Outcome), res)
	return false, &again, err
}

// approvals opens a gate for each request that waits, and goes on when all are decided.
func (d *drive) approvals(res Result) (*next, error) {
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskPaused, By: bySystem, Why: "requests wait for a decision", Pause: &tipstaff.TaskPause{Reason: "approval"}, Outcome: string(res.Outcome)})
	decisions := make([]flow.Decision, len(res.Pending))
	branches := make([]flow.Branch, len(res.Pending))
	for i, r := range res.Pending {
		branches[i] = flow.Branch{Name: fmt.Sprintf("approval#%d", i+1), Run: func(fc flow.Context) (err error) {
			decisions[i], err = fc.Wait(d.approvalGate(r, res))
			return err
		}}
	}
	if err := d.fc.At(fmt.Sprintf("worker#%d", d.calls)).Go(flow.Group{KeepGoing: true}, branches...); err != nil {
		return nil, err
	}
	n := &next{resume: true}
	n.text, n.grants = textDecided(res.Pending, decisions)
	return n, nil
}

// question asks what the worker wants to know.
func (d *drive) question(res Result) (*next, error) {
	dec, err := d.fc.At(fmt.Sprintf("worker#%d", d.calls)).Wait(d.questionGate(res))
	if err != nil {
		return nil, err
	}
	if dec.Action != actionAnswer {
		return nil, failure(codeDenied, fmt.Sprintf("the question of worker %s was not answered", d.Worker))
	}
	return &next{text: textAnswer(res.Report.Question, answerText(dec)), resume: true}, nil
}

// failed asks what to do about an invocation that came to nothing, or ends the work.
func (d *drive) failed(n next, code string, res Result) (next, error) {
	d.move(tipstaff.TaskMoved{To: tipstaff.TaskPaused, By: bySystem, Why: code, Pause: &tipstaff.TaskPause{Reason: string(res.Outcome)}, Outcome: string(res.Outcome)})
	failed := failure(code, failureText(d.Worker, res))
	if d.OnFailure != AskOnFailure {
		return n, failed
	}
	dec, err := d.fc.At(fmt.Sprintf("worker#%d", d.calls)).Wait(d.failureGate(code, res))
	if err != nil {
		return n, err
	}
	if dec.Action != actionRetry {
		return n, failed
	}
	var how struct {
		Text  string `json:"text"`
		Fresh bool   `json:"fresh"`
	}
	_ = json.Unmarshal(dec.Answer, &how) // without an answer it simply goes on
	how.Text = cmp.Or(how.Text, dec.Feedback)
	if how.Fresh || !d.begun {
		if d.begun || how.Fresh {
			d.session++
			d.begun, d.worked = false, false
		}
		return next{text: strings.TrimSpace(d.spawnPrompt() + "\n\n" + how.Text)}, nil
	}
	return next{text: textRetry(res, how.Text), resume: true}, nil
}

// output is what the report comes to.
func (d *drive) output(res Result) Output {
	out := Output{Text: res.Text, Data: res.Report.Data, Verdict: res.Report.Verdict}
	if d.Keep {
		out.Kept = &Kept{Task: d.task, Path: d.path, Session: d.session, Iteration: d.iteration}
	}
	return out
}

func digestOf(text string) string {
	if text == "" {
		return ""
	}
	return journal.Sum([]byte(text)).String()
}
