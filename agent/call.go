package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// Actions at an approval gate.
const (
	ActionAllow    = "allow"
	ActionDeny     = "deny"
	ActionAllowAll = "allow_all"
)

// request is a call that the model asks for.
type request struct {
	call    Call
	segment string // of its path
	at      flow.Context
	step    int
	tool    *Tool       // nil: there is none of that name
	refused *flow.Error // before the gate was asked
	verdict tool.Verdict
	tainted bool // the verdict was given with untrusted results about
}

// grant is what an allow_all covers: an approved SELECT must not cover a later
// DROP.
type grant struct {
	definition string // digest
	class      flow.Class
	guards     string
}

func grantOf(v tool.Verdict) grant {
	return grant{v.Definition.Digest, v.Class, strings.Join(v.Guards, "\n")}
}

// requests looks up what the calls of a message are about, asks the gate, and emits
// what was asked for: all of it, before any of it is decided.
func (t *turn) requests(calls []Call) []*request {
	list := make([]*request, len(calls))
	for i, c := range calls {
		r := &request{call: c, segment: callSegment(t.steps, i+1), step: t.steps}
		r.at = t.fc.At(r.segment)
		t.lookUp(r)
		list[i] = r
		r.at.Emit(emitted(r.event(i + 1)))
	}
	return list
}

func (t *turn) lookUp(r *request) {
	i, ok := t.names[r.call.Name]
	if !ok {
		r.refused = &flow.Error{Code: tool.CodeUnknown, Message: fmt.Sprintf("there is no tool %q", r.call.Name)}
		return
	}
	r.tool = &t.catalog.Tools[i]
	if !t.offered[r.tool.URI] {
		r.refused = &flow.Error{Code: ClassNotOffered, Message: fmt.Sprintf("%q is not offered in this turn", r.call.Name)}
		return
	}
	t.judge(r)
}

// judge asks the gate. It is asked again where what it decides by has changed.
func (t *turn) judge(r *request) {
	r.tainted = t.untrusted
	r.verdict = t.gate.Ask(tool.Request{URI: r.tool.URI, Args: r.arguments(), Agent: true,
		Turn: policy.Turn{Untrusted: t.untrusted, Step: r.step}, Run: policy.Run{Path: r.at.Path(), Principal: t.cfg.Principal}})
}

// arguments are what is sent: a model that gives none means the empty object.
func (r *request) arguments() json.RawMessage {
	if isBlank(r.call.Arguments) {
		return json.RawMessage("{}")
	}
	return json.RawMessage(r.call.Arguments)
}

func (r *request) event(index int) *ToolCallRequest {
	e := &ToolCallRequest{Step: r.step, Index: index, ID: r.call.ID, Name: r.call.Name,
		Arguments: json.RawMessage("{}"), Facts: json.RawMessage("{}")}
	if r.tool != nil {
		e.Server, e.Tool, e.URI = r.tool.Server, r.tool.Name, r.tool.URI
	}
	v := r.verdict
	if v.Definition != nil {
		e.Effect, e.Destructive, e.OpenWorld = v.Class, v.Destructive, v.OpenWorld
	}
	var object map[string]json.RawMessage
	switch {
	case v.Args != nil:
		e.Arguments, e.ArgsDigest = v.Args, v.ArgsDigest()
	case json.Unmarshal(r.arguments(), &object) == nil && object != nil:
		e.Arguments = flow.JSON(r.arguments())
	}
	if v.Facts != nil {
		e.Facts = v.Facts
	}
	return e
}

// handle has the calls of a step made and answered: at once where all of them only
// read, else strictly one after the other.
func (t *turn) handle(requests []*request) error {
	if len(requests) > 1 && !slices.ContainsFunc(requests, (*request).changes) {
		return t.together(requests)
	}
	for i, r := range requests {
		if r.tool != nil && r.refused == nil && r.tainted != t.untrusted {
			t.judge(r)
		}
		res, err := t.perform(r.at, r)
		if res == nil {
			return err
		}
		t.answer(r, res)
		t.spent += res.took
		if err != nil {
			t.leave(requests[i+1:], err, ClassNotExecuted, "the turn ended before this call was made")
			return err
		}
	}
	return nil
}

// changes reports whether the call does more than read. One that is refused
// outright does nothing.
func (r *request) changes() bool { return r.verdict.Definition != nil && r.verdict.Class != flow.Read }

// together makes calls at once. Their grants count from the next step: which of two
// gates is answered first must not matter.
func (t *turn) together(requests []*request) error {
	results := make([]*result, len(requests))
	branches := make([]flow.Branch, len(requests))
	for i, r := range requests {
		branches[i] = flow.Branch{Name: r.segment, Run: func(fc flow.Context) (err error) {
			results[i], err = t.perform(fc, r)
			return err
		}}
	}
	err := t.fc.Go(flow.Group{Limit: t.ToolParallelism + t.asking(requests)}, branches...)
	var failed *flow.Error
	if err != nil && !errors.Is(err, flow.ErrCancelled) && !errors.As(err, &failed) {
		return err
	}
	var longest time.Duration
	for i, r := range requests {
		res := results[i]
		switch {
		case failed != nil && (res == nil || res.class == ClassCancelled): // one of its neighbours ended the turn
			res = refusal(ClassNotExecuted, "the turn ended before this call was made")
		case res == nil:
			res = refusal(ClassCancelled, "the turn was cancelled before this call was made")
		}
		t.answer(r, res)
		longest = max(longest, res.took)
	}
	t.spent += longest
	return err
}

// asking counts the calls that wait for a person. They hold up no others, and are
// asked about together.
func (t *turn) asking(requests []*request) (n int) {
	for _, r := range requests {
		if r.verdict.Do != policy.Ask || r.refused != nil {
			continue
		}
		if _, granted := t.grants[grantOf(r.verdict)]; !granted {
			n++
		}
	}
	return n
}

// perform has one call decided and made. It changes nothing of the turn. Without a
// result the turn does not end here: it waits, or cannot go on in this drive. With a
// result and an error it ends with that error, and the result is the call's.
func (t *turn) perform(fc flow.Context, r *request) (*result, error) {
	v := r.verdict
	switch {
	case r.refused != nil:
		return refusalOf(r.refused), nil
	case v.Err != nil && v.Rule == "": // refused before it reached the policy
		return refusalOf(v.Err), nil
	}
	by, res, err := t.permit(fc, r)
	if res != nil || err != nil {
		return res, err
	}
	made, err := t.dispatch(fc, r, by.gate)
	if made != nil {
		made.grant, made.gate = by.grant, by.gate
	}
	return made, err
}

// permission is on what a call rests. Zero: the policy allows it.
type permission struct {
	gate  string // that allowed it, or others like it
	grant *grant // that comes with it
}

// permit finds out whether the call may be made: from the policy, an earlier grant,
// or a person. A result says that it may not.
func (t *turn) permit(fc flow.Context, r *request) (permission, *result, error) {
	v := r.verdict
	decided := &ApprovalDecided{ID: r.call.ID, Decision: ActionAllow, By: ByPolicy, Rule: v.Rule, PolicyDigest: v.PolicyDigest}
	switch v.Do {
	case policy.Allow:
		fc.Emit(emitted(decided))
		return permission{}, nil, nil
	case policy.Ask:
		if gate, ok := t.grants[grantOf(v)]; ok {
			decided.By, decided.Gate = ByGrant, gate
			fc.Emit(emitted(decided))
			return permission{gate: gate}, nil, nil
		}
		return t.approval(fc, r, decided)
	}
	decided.Decision, decided.Reason = ActionDeny, v.Err.Message
	fc.Emit(emitted(decided))
	return permission{}, refusalOf(v.Err), nil
}

// approval asks a person.
func (t *turn) approval(fc flow.Context, r *request, decided *ApprovalDecided) (permission, *result, error) {
	v := r.verdict
	d, err := fc.Wait(flow.Gate{Key: "approval", Kind: string(tipstaff.Approval),
		Question: fmt.Sprintf("May %s/%s be called with these arguments?", r.tool.Server, r.tool.Name),
		Subject:  v.Subject, Actions: []string{ActionAllow, ActionDeny, ActionAllowAll}, Deny: ActionDeny, Expires: t.ApprovalExpiry})
	switch {
	case errors.Is(err, flow.ErrCancelled): // the gate has no decision that counts
		decided.Decision, decided.By, decided.Reason = ActionDeny, ByCancel, "nobody decided before the turn was cancelled"
		fc.Emit(emitted(decided))
		return permission{}, refusal(ClassCancelled, "the turn was cancelled before this call was approved"), err
	case err != nil:
		return permission{}, nil, err
	case d.FailReason == CodeApproverFailed:
		failed := &flow.Error{Code: CodeApproverFailed, Message: "the call could not be approved: " + d.Note}
		return permission{}, refusal(ClassNotExecuted, failed.Message), failed
	}
	switch d.Action {
	case ActionAllow:
		return permission{gate: d.Gate}, nil, nil
	case ActionAllowAll:
		g := grantOf(v)
		return permission{d.Gate, &g}, nil, nil
	}
	return permission{}, refusal(ClassApprovalDenied, Denial(d)), nil
}

// Denial says who did not allow a call, and why.
func Denial(d flow.Decision) string {
	switch {
	case d.Via == "expiry":
		return "nobody approved the call in time"
	case d.Note != "":
		return fmt.Sprintf("%s did not allow the call: %s", d.By, d.Note)
	}
	return d.By + " did not allow the call"
}

// dispatch makes the call.
func (t *turn) dispatch(fc flow.Context, r *request, by string) (*result, error) {
	v := r.verdict
	timeout := t.ToolTimeout
	if own := r.tool.Config.Timeout; own > 0 {
		timeout = own
	}
	timeout, err := t.within(timeout)
	if err != nil {
		return refusal(ClassNotExecuted, "the turn ended before this call was made"), err
	}
	c := flow.Call{Name: tool.ActivityName, Class: v.Class, Timeout: timeout, Reserve: flow.Use{tipstaff.BoundToolCalls: 1},
		Input: flow.JSON(tool.Input{URI: r.tool.URI, Args: v.Args, By: by, Content: true, Turn: &policy.Turn{Untrusted: r.tainted, Step: r.step},
			Definition: v.Definition.Digest, ArgsDigest: v.ArgsDigest(), Facts: v.FactsDigest()})}
	if v.Class != flow.Once {
		c.Retry = retry(toolRetries)
	}
	local := t.local()
	local.CallID, c.Local = r.call.ID, local
	done, err := fc.Do(c)
	return t.outcome(v, done, err)
}

// answer tells the model, and everybody else, what became of a call.
func (t *turn) answer(r *request, res *result) {
	if res.made {
		t.calls++
	}
	if res.grant != nil {
		t.grants[*res.grant] = res.gate
	}
	t.untrusted = t.untrusted || res.untrusted
	t.conv.append(Message{Role: FromTool, CallID: r.call.ID, Content: res.content, IsError: res.class != ""})
	r.at.Emit(emitted(&ToolCallResult{ID: r.call.ID, IsError: res.class != "", Class: res.class, Content: res.preview,
		Bytes: res.bytes, Ref: res.ref, DurationMS: res.took.Milliseconds(), Untrusted: res.untrusted}))
}

// answerAll gives calls that are not made the same result.
func (t *turn) answerAll(requests []*request, class, why string) {
	for _, r := range requests {
		t.answer(r, refusal(class, why))
	}
}
