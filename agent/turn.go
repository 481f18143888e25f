package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// Input is what a turn starts from.
type Input struct {
	Session string
	History []Message // a valid conversation; nil: a new one
	Message string    // what the user says
	Purpose string    // of the requests; "": a turn
}

// Output is how a turn ended. Messages is set whatever the error.
type Output struct {
	Text      string          `json:"text"`
	JSON      json.RawMessage `json:"json,omitempty"` // with an output schema
	Usage     Usage           `json:"usage"`
	Steps     int             `json:"steps"`
	ToolCalls int             `json:"tool_calls"`
	Reason    Reason          `json:"reason"`
	Messages  []Message       `json:"-"` // the whole conversation, valid
}

// Turn takes one turn of a conversation: it asks the model, has done what the model
// asks for, tells it what came of that, and so on until the model has answered.
//
// What it does stands below the path of fc: catalog, router, model#N (the N-th
// step), tool#N.I (the I-th call of that step) with the gate approval below it, and
// limit#N. It emits the events of event.go, at the paths of what they are about.
//
// A turn that ended badly returns a *flow.Error with the code of its error event,
// or flow.ErrCancelled. Other errors are those of package flow that must be handed
// up as they are: then no event has ended the turn. A configuration or a history
// that is not valid is told before anything is done.
func Turn(fc flow.Context, cfg Config, in Input) (Output, error) {
	t := &turn{fc: fc, cfg: cfg, Settings: cfg.Settings, gate: cfg.Gate, history: len(in.History), purpose: cmp.Or(in.Purpose, PurposeTurn), usage: Usage{CostUSD: new(USD)},
		ids: map[string]bool{}, grants: map[grant]string{}}
	err := t.Settings.Resolve()
	if err == nil {
		err = Valid(in.History)
	}
	if err != nil {
		return Output{Messages: in.History}, err
	}
	t.begin(in)
	return t.end(t.run(in.Message))
}

// turn is the state of a turn. All of it follows from the settings, the input and
// what the flow answers.
type turn struct {
	Settings
	fc  flow.Context
	cfg Config

	conv    *conversation
	history int             // messages before this turn
	ids     map[string]bool // of calls, in the whole session

	catalog *Catalog
	gate    *tool.Gate
	names   map[string]int // of the offered names: index in the catalog
	offered map[string]bool
	offers  []Offer
	system  string

	systemDigest, toolsDigest string // of what every request has

	limit     int // of steps
	steps     int
	calls     int // that were made
	purpose   string
	spent     time.Duration
	cost      tipstaff.USD // of all calls so far
	lost      tipstaff.USD // of that, for attempts that told nothing of their cost
	lowered   bool         // the vendor found a request too long
	repairs   int          // of answers that did not fit the output schema
	untrusted bool         // a result of this turn came from an open world
	grants    map[grant]string
	usage     Usage
	finished  *Finish
}

// begin takes in what was said before, and the message.
func (t *turn) begin(in Input) {
	t.conv = newConversation(in.History)
	for _, m := range in.History {
		for _, c := range m.Calls {
			t.ids[c.ID] = true
		}
	}
	t.limit = t.MaxSteps
	t.system = strings.TrimSpace(t.Preamble + "\n\n" + t.System)
	t.conv.append(Message{Role: User, Text: strings.ToValidUTF8(in.Message, "\uFFFD")})
}

func (t *turn) run(message string) error {
	if t.CostBound && t.Caps.Price == nil {
		return &flow.Error{Code: CodePriceUnknown,
			Message: fmt.Sprintf("there is a bound of cost, and the price of %s is not known: give it in models_file, or drop the bound", t.ModelName)}
	}
	if err := t.open(); err != nil {
		return err
	}
	if err := t.narrow(message); err != nil {
		return err
	}
	for t.finished == nil {
		if err := t.step(); err != nil {
			return err
		}
	}
	return nil
}

// end emits the terminal event, unless the turn has not come to its end in this
// drive or cannot.
func (t *turn) end(err error) (Output, error) {
	if t.WholeCost && t.usage.CostUSD != nil {
		t.usage.CostUSD, t.usage.LostUSD = &t.cost, t.lost
	}
	out := Output{Usage: t.usage, Steps: t.steps, ToolCalls: t.calls, Messages: t.conv.messages}
	var failed *flow.Error
	switch {
	case err == nil:
		out.Text, out.JSON, out.Reason = t.finished.Text, t.finished.Output, t.finished.Reason
		t.finished.Usage, t.finished.Steps, t.finished.ToolCalls = t.usage, t.steps, t.calls
		t.fc.Emit(emitted(t.finished))
	case errors.Is(err, flow.ErrCancelled):
		t.fc.Emit(emitted(&Failed{Code: CodeCancelled, Msg: "the turn was cancelled", Usage: t.usage, Steps: t.steps}))
	case errors.As(err, &failed):
		t.fc.Emit(emitted(&Failed{Code: failed.Code, Msg: failed.Message, Which: failed.Bound, Usage: t.usage, Steps: t.steps}))
	}
	return out, err
}

// take counts the time of a call, and what it cost, towards those of the turn.
func (t *turn) take(r flow.Result) {
	t.spent += time.Duration(r.Ms) * time.Millisecond
	t.cost += tipstaff.USD(r.Cost)
	t.lost += tipstaff.USD(r.Lost)
}

// local is what the activities of the turn are given.
func (t *turn) local() *Local { return &Local{Settings: &t.Settings, Gate: t.gate, Catalog: t.catalog} }

// within is how long a call may take that may take d: no longer than what is left
// of the turn's own time.
func (t *turn) within(d time.Duration) (time.Duration, error) {
	if t.Timeout == 0 {
		return d, nil
	}
	left := t.Timeout - t.spent
	if left <= 0 {
		return 0, &flow.Error{Code: flow.CodeTimeout, Message: fmt.Sprintf("the calls of the turn took longer than %s together", t.Timeout)}
	}
	return min(d, left), nil
}

// retry is how calls that may be repeated are: the one layer in which that happens.
func retry(max int) flow.Retry {
	return flow.Retry{Max: max, Backoff: 500 * time.Millisecond, Factor: 2, MaxBackoff: 30 * time.Second, Jitter: true}
}

// Further attempts after the first.
const (
	modelRetries = 4
	toolRetries  = 2
)

// open reads the catalog, and names the tools.
func (t *turn) open() error {
	timeout, err := t.within(t.ToolTimeout)
	if err != nil {
		return err
	}
	call := flow.Call{Key: "catalog", Name: CatalogActivity, Class: flow.Read, Timeout: timeout, Retry: retry(toolRetries), Local: t.local()}
	if t.Hop {
		call.Reserve = flow.Use{tipstaff.BoundAgentHops: 1}
	}
	r, err := t.fc.Do(call)
	t.take(r)
	if err != nil {
		return err
	}
	t.catalog = &Catalog{}
	if err := flow.Decode(t.fc, call, r, t.catalog); err != nil {
		return err
	}
	if t.gate != nil {
		return nil
	}
	if t.gate, err = tool.NewGateFor(t.catalog.Tools, t.cfg.Policy); err != nil {
		return &flow.Error{Code: string(ConfigInvalid), Message: err.Error()}
	}
	return nil
}

// narrow asks the router, if there is one, which tools this turn offers. It saves
// tokens: the gate is what refuses.
func (t *turn) narrow(message string) error {
	selected, err := t.selection(message)
	if err != nil {
		return err
	}
	t.names, t.offered = map[string]int{}, map[string]bool{}
	for _, uri := range selected {
		t.offered[uri] = true
	}
	for i, name := range offerNames(t.catalog.Tools) {
		t.names[name] = i
		if entry := t.catalog.Tools[i]; t.offered[entry.URI] {
			o, err := offer(entry, name)
			if err != nil {
				return err
			}
			t.offers = append(t.offers, o)
		}
	}
	t.systemDigest, t.toolsDigest = flow.Digest([]byte(t.system)), flow.Digest(flow.JSON(t.offers))
	return nil
}

func (t *turn) selection(message string) ([]string, error) {
	all := urisOf(t.catalog.Tools)
	if t.Router == "" {
		return all, nil
	}
	reserved, asks, err := t.routing(message)
	if err != nil || !asks {
		return all, err
	}
	at := t.fc.At("router")
	timeout, err := t.within(t.CallTimeout)
	if err != nil {
		return nil, err
	}
	call := flow.Call{Name: RouterActivity, Class: flow.Read, Input: flow.JSON(narrowing{message, flow.Digest(flow.JSON(t.catalog))}), Timeout: timeout, Reserve: reserved,
		Local: t.local()}
	r, err := at.Do(call)
	t.take(r)
	var s Selection
	var failed *flow.Error
	switch {
	case err == nil:
		err = flow.Decode(at, call, r, &s)
	case errors.As(err, &failed) && !ends(failed.Code):
		s, err = Selection{Tools: all, Toolkits: []string{}, Fallback: "the router failed: " + failed.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	s.Usage = priced(s.Usage, t.Caps.Price)
	t.usage.Add(s.Usage)
	at.Emit(emitted(&RouterDecided{Router: t.Router, Toolkits: s.Toolkits, Tools: len(s.Tools), Fallback: s.Fallback, Usage: s.Usage}))
	return s.Tools, nil
}

// routing is what asking the router may use, and whether there is anything to ask.
func (t *turn) routing(message string) (flow.Use, bool, error) {
	if t.Router != RouterToolkits {
		return reserve(EstimateText(message), routerOutput, t.Caps.Price), true, nil
	}
	q, err := newRouterQuestion(t.RouterPrompt, t.Toolkits, message, t.catalog)
	if err != nil {
		return nil, false, &flow.Error{Code: string(ConfigInvalid), Message: err.Error()}
	}
	return reserve(Estimate(q.request), routerOutput, t.Caps.Price), q.asks(), nil
}

// ends reports whether a call's failure is one of the run: nothing more can be
// done in it.
func ends(code string) bool {
	return code == flow.CodeBoundExceeded || code == flow.CodeDeadline || code == flow.CodeHistoryTooLong
}
