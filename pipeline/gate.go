package pipeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Actions at gates of stages.
const (
	actionAnswer  = "answer"
	actionDeny    = "deny"
	actionApprove = "approve"
	actionModify  = "modify"
	actionReject  = "reject"
)

// gateActions are the actions by kind of interrupt; the last one denies.
var gateActions = map[string][]string{
	Clarification: {actionAnswer, actionDeny},
	Question:      {actionAnswer, actionDeny},
	Confirmation:  {actionApprove, actionModify, actionReject},
}

const (
	answerTime    = 24 * time.Hour            // how long a question waits that says nothing about it
	longestAnswer = 10 * 365 * 24 * time.Hour // and one that says too much
)

// question is an interrupt that holds its stage.
type question struct {
	visit    *visit
	request  InterruptRequest
	then     string // where its rule says that the run goes on; "": unsaid
	nth      int    // of this visit, from 1
	stale    bool   // a new epoch has begun its stage anew since
	at       int    // its place in the Envelope's list
	decision flow.Decision
	response *Response
}

// hold stops the run at a stage that asks. Its output is merged; no other stage
// starts before it is answered.
func (x *executor) hold(v *visit, r InterruptRequest, t target) error {
	s := &x.stages[v.agent.Index]
	s.held = true
	if s.mark == completed {
		s.mark = unmarked
	}
	x.held = append(x.held, &question{visit: v, request: r, then: t.then})
	x.emitTransition(tipstaff.Transitioned{From: v.agent.Name, To: t.to, Reason: cmp.Or(t.reason, tipstaff.TransitionInterrupt), Rule: t.rule})
	return nil
}

// ask opens the gates of all stages that are held, waits for all decisions, and goes
// on as they say, in index order.
func (x *executor) ask() error {
	x.open()
	if err := x.decide(); err != nil {
		return err
	}
	held := x.held
	for _, q := range held {
		q.stale = x.reset[q.visit.agent.Index]
		x.answer(q)
	}
	x.held, x.reset = nil, nil
	for _, q := range held {
		if err := x.goOn(q); err != nil {
			return err
		}
	}
	x.env.Version++
	x.publish()
	return nil
}

// wait opens a gate of the executor's own at the path of a stage, and writes it down
// in the Envelope while it is open.
func (x *executor) wait(stage, path string, g flow.Gate) (flow.Decision, error) {
	x.env.Interrupts = newest(append(x.env.Interrupts, Interrupt{Key: path + "/" + g.Key, Kind: g.Kind, Stage: stage,
		Visit: x.env.Visits[stage], Question: g.Question, Open: true}))
	x.publish()
	d, err := x.fc.At(path).Wait(g)
	x.records += 3
	if err != nil {
		return d, err
	}
	i := &x.env.Interrupts[len(x.env.Interrupts)-1]
	i.ID, i.Open, i.Response = d.Gate, false, &Response{InterruptID: d.Gate, Kind: g.Kind, Action: d.Action, Text: d.Feedback, Note: d.Note, By: d.By}
	x.env.Version++
	return d, nil
}

// open writes the questions down in the Envelope. A branch's name can be used once,
// and those of a batch have been: so several questions have paths of their own.
func (x *executor) open() {
	for _, q := range x.held {
		x.questions[q.visit.path]++
		q.nth = x.questions[q.visit.path]
		i := Interrupt{Key: q.visit.path + "/" + q.key(), Kind: q.request.Kind, Stage: q.visit.agent.Name, Visit: q.visit.n,
			Question: q.request.Question, Message: q.request.Message, Data: q.request.Data, Open: true}
		if len(x.held) > 1 {
			i.Key = q.branch() + "/" + q.key()
		}
		x.env.Interrupts = append(x.env.Interrupts, i)
	}
	x.env.Interrupts = last(max(kept, len(x.held)), x.env.Interrupts)
	for i, q := range x.held {
		q.at = len(x.env.Interrupts) - len(x.held) + i
	}
	x.env.Version++
	x.publish()
}

func (q *question) branch() string { return q.visit.path + ".ask" + nth(q.nth) }
func (q *question) key() string    { return q.request.Kind + nth(q.nth) }

// nth tells the second and later of something apart.
func nth(n int) string {
	if n == 1 {
		return ""
	}
	return "." + strconv.Itoa(n)
}

// decide waits for all decisions. The gates are open at once: whoever answers may do
// so in any order.
func (x *executor) decide() (err error) {
	x.records += 3 * len(x.held)
	if len(x.held) == 1 {
		q := x.held[0]
		q.decision, err = x.fc.At(q.visit.path).Wait(q.gate())
		return err
	}
	branches := make([]flow.Branch, len(x.held))
	for i, q := range x.held {
		branches[i] = flow.Branch{Name: q.branch(), Run: func(fc flow.Context) (err error) {
			q.decision, err = fc.Wait(q.gate())
			return err
		}}
	}
	return x.fc.Go(flow.Group{KeepGoing: true}, branches...)
}

type interruptSubject struct {
	Stage   string `json:"stage"`
	Visit   int64  `json:"visit"`
	Message string `json:"message,omitempty"`
	Data    any    `json:"data,omitempty"`
}

func (q *question) gate() flow.Gate {
	actions := gateActions[q.request.Kind]
	expires := answerTime
	if ttl := q.request.TTLSeconds; ttl > 0 {
		expires = time.Duration(min(ttl, int64(longestAnswer/time.Second))) * time.Second
	}
	subject := interruptSubject{Stage: q.visit.agent.Name, Visit: q.visit.n, Message: q.request.Message}
	if q.request.Data != nil {
		subject.Data = EncodeValue(shown(q.request.Data))
	}
	return flow.Gate{Key: q.key(), Kind: q.request.Kind, Question: cmp.Or(q.request.Question, q.visit.agent.Name+" asks."),
		Subject: flow.JSON(subject), Actions: actions, Deny: actions[len(actions)-1], Expires: expires}
}

// answer keeps a decision as the response that stages and rules see.
func (x *executor) answer(q *question) {
	d := q.decision
	r := &Response{InterruptID: d.Gate, Kind: q.request.Kind, Action: d.Action, Text: d.Feedback, Note: d.Note, By: d.By}
	if q.request.Kind == Confirmation {
		approved := !q.denied()
		r.Approved = &approved
	}
	r.Text, r.Data = said(d.Answer, r.Text)
	q.response = r
	x.stages[q.visit.agent.Index].held = false
	i := &x.env.Interrupts[q.at]
	i.ID, i.Open, i.Response = d.Gate, false, r
}

// said is what an answer says: a text, or data.
func said(answer json.RawMessage, feedback string) (text string, data any) {
	if len(answer) == 0 {
		return feedback, nil
	}
	v, err := Decode(answer)
	if err != nil {
		return string(answer), nil // what is no value of ours is still what was said
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	return feedback, v
}

// denied: only what the gate offers beside its denying action lets the run go on.
func (q *question) denied() bool {
	actions := gateActions[q.request.Kind]
	return !slices.Contains(actions[:len(actions)-1], q.decision.Action)
}

// goOn takes the run on after an answer.
func (x *executor) goOn(q *question) error {
	v := q.visit
	if q.denied() {
		if v.agent.DeniedNext == "" {
			text := v.path + ": the " + q.request.Kind + " was decided with " + q.decision.Action
			if q.decision.Note != "" {
				text += ": " + q.decision.Note
			}
			return x.end(tipstaff.TerminalDenied, text, where{visit: v, code: "gate_denied"})
		}
		x.release(q)
		return x.follow(v, target{to: v.agent.DeniedNext, asked: q})
	}
	to := q.resumeAt(x.p)
	if v.unfinished != nil && x.completes(q, to) {
		return x.overturn(v, v.unfinished)
	}
	tr := tipstaff.Transitioned{From: v.agent.Name, To: to, Reason: tipstaff.TransitionResume}
	if to == End {
		x.release(q)
		x.close(v)
		x.emitTransition(tr)
		return nil
	}
	a := x.p.Agent(to)
	switch {
	case a.Index < v.agent.Index:
		x.jump(a)
	case a != v.agent:
		x.release(q)
	}
	x.enter(a, entry{Response: q.response})
	x.emitTransition(tr)
	return nil
}

// completes reports whether the asking stage counts as completed when the run goes on
// at a stage or the end: it is not run again.
func (x *executor) completes(q *question, to string) bool {
	return x.releasable(q) && (to == End || x.p.Agent(to).Index > q.visit.agent.Index)
}

func (x *executor) releasable(q *question) bool {
	i := q.visit.agent.Index
	s := &x.stages[i]
	return !q.stale && !x.reset[i] && !s.frontier && s.mark == unmarked
}

// release counts the asking stage as completed, unless a new epoch has begun it anew.
// One that was denied before its output was whole releases nobody.
func (x *executor) release(q *question) {
	if !x.releasable(q) {
		return
	}
	s := &x.stages[q.visit.agent.Index]
	if s.mark = completed; q.visit.unfinished != nil {
		s.mark = closed
	}
}

// resumeAt is where the run goes on after an answer: where the rule says, or the
// pipeline, else at the stage that asked.
func (q *question) resumeAt(p *Pipeline) string {
	to := q.then
	switch {
	case to != "":
	case q.request.Kind == Clarification:
		to = p.ClarificationResume
	case q.request.Kind == Confirmation:
		to = p.ConfirmationResume
	}
	return cmp.Or(to, q.visit.agent.Name)
}

// shown is a value as it can stand in what is signed: whole numbers that canonical
// JSON would round stand as texts.
func shown(v any) any {
	switch v := v.(type) {
	case int64:
		if v > maxSafe || v < -maxSafe {
			return string(EncodeValue(v))
		}
	case json.Number:
		return string(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = shown(item)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = shown(item)
		}
		return object
	}
	return v
}

// maxSafe is the largest whole number up to which a double holds every one.
const maxSafe = 1<<53 - 1
