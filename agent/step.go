package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// modelInput is the input of model.call. It names what is large by its digest.
type modelInput struct {
	Model           string   `json:"model"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	MaxOutputTokens int      `json:"max_output_tokens"`
	OutputSchema    string   `json:"output_schema,omitempty"`
	System          string   `json:"system"`
	Tools           string   `json:"tools"`
	Conversation    string   `json:"conversation"` // as it is sent
}

// step asks the model once, and does what it asks for.
func (t *turn) step() error {
	if t.steps >= t.limit {
		if err := t.exceed(0); err != nil {
			return err
		}
	}
	sent, err := t.window().fit(t.conv)
	if err != nil {
		return err
	}
	timeout, err := t.within(t.CallTimeout)
	if err != nil {
		return err
	}
	t.steps++
	at := t.fc.At("model#" + strconv.Itoa(t.steps))
	said, attempts, err := t.ask(at, sent, timeout)
	var failed *flow.Error
	switch {
	case err == nil:
		return t.react(at, said, attempts)
	case !errors.As(err, &failed):
		return err
	case failed.Code == CodeContextOverflow && !t.lowered: // of the vendor, once a turn: the next step sends less
		t.lowered = true
		return nil
	}
	if text := partialText(failed); text != "" { // the last attempt broke off
		t.conv.append(Message{Role: Assistant, Text: text, Partial: true, Model: t.ModelName})
	}
	return err
}

// ask is what the model says, and how many attempts that took.
func (t *turn) ask(at flow.Context, sent cutting, timeout time.Duration) (said Response, attempts int, err error) {
	at.Emit(emitted(&StepStarted{Step: t.steps, Model: t.ModelName, Messages: len(sent.messages), Tools: len(t.offers),
		EstInputTokens: sent.size, Cut: sent.Cut}))
	request := t.request(sent)
	local := t.local()
	local.Request, local.step = request, t.steps
	call := flow.Call{Name: ModelActivity, Class: flow.Read, Input: t.modelInput(request, sent), Timeout: timeout,
		Retry: retry(modelRetries), Reserve: reserve(sent.size, int64(t.MaxOutputTokens), t.Caps.Price), Local: local}
	if t.Prepaid && t.steps == 1 {
		call.Prepaid = flow.Use{tipstaff.BoundModelCalls: 1}
	}
	r, err := at.Do(call)
	t.take(r)
	if err != nil {
		return said, 0, err
	}
	return said, r.Attempt, flow.Decode(at, call, r, &said)
}

func (t *turn) request(sent cutting) Request {
	r := Request{System: t.system, Tools: t.offers, Messages: sent.messages, Temperature: t.Temperature, TopP: t.TopP,
		MaxOutputTokens: t.MaxOutputTokens, Agent: t.Agent, Purpose: t.purpose}
	if t.Caps.StructuredOutput {
		r.OutputSchema = t.OutputSchema
	}
	return r
}

func (t *turn) modelInput(r Request, sent cutting) json.RawMessage {
	in := &modelInput{Model: t.ModelName, Temperature: r.Temperature, TopP: r.TopP, MaxOutputTokens: r.MaxOutputTokens,
		System: t.systemDigest, Tools: t.toolsDigest, Conversation: sent.head}
	if r.OutputSchema != nil {
		in.OutputSchema = flow.Digest(r.OutputSchema)
	}
	return flow.JSON(in)
}

// window is what of the conversation can be sent.
func (t *turn) window() window {
	budget := int64(t.Caps.ContextWindow) - int64(t.MaxOutputTokens) - spareTokens
	if t.lowered {
		budget -= budget / 4
	}
	return window{model: t.ModelName, budget: budget, fixed: weighFixed(t.system, t.offers), turn: t.history, share: t.ShareWindow}
}

// react does what follows from what the model said.
func (t *turn) react(at flow.Context, said Response, attempts int) error {
	t.usage.Add(said.Usage)
	calls := t.named(said.Calls)
	switch { // what counts is whether there are calls
	case said.Reason == ReasonStop && len(calls) > 0:
		said.Reason = ReasonToolCalls
	case said.Reason == ReasonToolCalls && len(calls) == 0:
		said.Reason = ReasonStop
	}
	t.conv.append(Message{Role: Assistant, Text: said.Text, Calls: calls, Model: t.ModelName, Usage: said.Usage, Opaque: said.Opaque})
	at.Emit(emitted(&MessageDone{Step: t.steps, Text: said.Text, Reason: said.Reason, Calls: len(calls), Usage: said.Usage,
		Attempts: attempts, Model: said.Model}))
	requests := t.requests(calls)
	switch {
	case said.Reason == ReasonLength || said.Reason == ReasonContentFilter:
		t.answerAll(requests, ClassCutOff, "the message that asks for this call broke off, so it was not made")
		t.finish(said, nil)
		return nil
	case len(calls) == 0:
		return t.conclude(said)
	}
	if t.steps >= t.limit {
		if err := t.exceed(len(calls)); err != nil {
			t.leave(requests, err, ClassStepLimit, "the turn may take no more steps, so this call was not made")
			return err
		}
	}
	return t.handle(requests)
}

// leave answers calls that are not made because of err. A turn that waits leaves
// them open.
func (t *turn) leave(requests []*request, err error, class, why string) {
	var failed *flow.Error
	switch {
	case errors.Is(err, flow.ErrCancelled):
		t.answerAll(requests, ClassCancelled, "the turn was cancelled before this call was made")
	case errors.As(err, &failed):
		t.answerAll(requests, class, why)
	}
}

// named gives calls ids that are new in the session: the vendor's, where it can be
// used, else one made from the call's path. Turns of one session have the same paths,
// so that a later one may have to try again.
func (t *turn) named(calls []Call) []Call {
	named := make([]Call, len(calls))
	for i, c := range calls {
		path := t.fc.At(callSegment(t.steps, i+1)).Path()
		for n, of := 1, path; c.ID == "" || t.ids[c.ID]; of = path + "~" + strconv.Itoa(n) {
			c.ID = MadeID(of)
			n++
		}
		t.ids[c.ID] = true
		named[i] = c
	}
	return named
}

// MadeID is the id of a call for which its vendor's cannot be used, made from what it is
// known by.
func MadeID(from string) string {
	sum := sha256.Sum256([]byte(from))
	return "tip_" + hex.EncodeToString(sum[:6])
}

func callSegment(step, index int) string {
	return "tool#" + strconv.Itoa(step) + "." + strconv.Itoa(index)
}

func (t *turn) finish(said Response, output json.RawMessage) {
	t.finished = &Finish{Reason: said.Reason, Text: said.Text, Output: output}
}

// Actions at a gate about the limit of steps.
const (
	actionExtend = "extend"
	actionStop   = "stop"
)

// exceed is what happens where the turn needs more steps than it may take: nil
// means that somebody has allowed it more. waiting is how many calls wait for that.
func (t *turn) exceed(waiting int) error {
	failure := &stepsExceeded{&flow.Error{Code: flow.CodeBoundExceeded, Bound: BoundSteps,
		Message: fmt.Sprintf("the turn may take %d steps, and needs more", t.limit)}}
	if t.OnLimit != OnLimitAsk || t.limit >= maxSteps {
		return failure
	}
	d, err := t.fc.Wait(flow.Gate{Key: "limit#" + strconv.Itoa(t.steps), Kind: string(tipstaff.Bound),
		Question: fmt.Sprintf("The turn has taken the %d steps it may take. How many more may it take?", t.limit),
		Subject:  flow.JSON(map[string]any{"bound": BoundSteps, "limit": t.limit, "most": maxSteps, "calls": waiting}),
		Actions:  []string{actionExtend, actionStop}, Deny: actionStop})
	if err != nil {
		return err
	}
	more := extension(d)
	if more <= 0 {
		return failure
	}
	t.limit = min(t.limit+more, maxSteps)
	return nil
}

// extension is by how many steps a decision extends the limit: its answer is a
// number, or {"steps": n} as for other bounds.
func extension(d flow.Decision) int {
	if d.Action != actionExtend {
		return 0
	}
	var n int
	if json.Unmarshal(d.Answer, &n) == nil {
		return min(n, maxSteps)
	}
	var by struct {
		Steps int `json:"steps"`
	}
	if json.Unmarshal(d.Answer, &by) != nil {
		return 0
	}
	return min(by.Steps, maxSteps)
}

// conclude ends the turn with the model's answer, or sends one back that does not
// fit the output schema.
func (t *turn) conclude(said Response) error {
	if t.OutputSchema == nil || isBlank(said.Text) { // nothing is no answer that could be repaired
		t.finish(said, nil)
		return nil
	}
	output, wrong := t.output(said.Text)
	if wrong == nil {
		t.finish(said, output)
		return nil
	}
	if t.repairs >= *t.OutputRetries {
		return &flow.Error{Code: CodeOutputInvalid, Message: "the answer does not fit the output schema: " + wrong.Error()}
	}
	t.repairs++
	t.conv.append(Message{Role: User, Text: fmt.Sprintf(
		"Your answer does not fit the schema that it must have: %v\nAnswer again with one JSON value that fits, and nothing else.", wrong)})
	return nil
}

// output reads an answer that must be one JSON value.
func (t *turn) output(text string) (json.RawMessage, error) {
	value := json.RawMessage(unfenced(text))
	if !json.Valid(value) {
		return nil, errors.New("it is not one JSON value")
	}
	schema, err := tool.CompileSchema(t.OutputSchema)
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(value); err != nil {
		return nil, err
	}
	return flow.JSON(value), nil
}

// unfenced is what stands in the one code fence that a text consists of, or else the
// text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	_, inner, ok = strings.Cut(inner, "\n") // behind the name of a language
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return text
	}
	return strings.TrimSpace(inner)
}
