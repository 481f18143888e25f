package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// A session is a chain of turns, each a run of its own. What was said before a turn
// is frozen into it message by message, so that a message is stored once however
// many turns follow it.

// frozenImage begins the names under which intent.draft lists the images that the
// messages of a conversation name.
const frozenImage = "image/"

// sessionHead is what evidence says of a turn's session.
type sessionHead struct {
	ID   string `json:"id"`
	Head string `json:"head"` // of the conversation, as the turn leaves it
}

// conversation is what a session holds before its next turn.
type conversation struct {
	session  string
	last     string // the run of its last turn; "": there is none
	turns    int64  // that it has
	messages []agent.Message
}

// conversation finds out where a session stands: what its last turn had before it,
// and what it added.
func (r *Runner) conversation(ctx context.Context, session string) (*conversation, error) {
	if session == "" {
		return &conversation{session: tipstaff.NewID(r.Now()).String()}, nil
	}
	rows, err := r.Store.Runs(ctx, flow.Query{Session: session, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noSession(session)
	}
	last := rows[0]
	if user := userOf(ctx); last.User != user { // whoever goes on with a session is shown all of it
		refusal := tipstaff.Errorf(tipstaff.Forbidden, "session %s belongs to another user", session)
		if visibleTo(ctx) == "" {
			refusal = refusal.WithCommand("`tipstaff fork %s` makes one of your own that begins with it", last.ID)
		}
		return nil, refusal
	}
	if !tipstaff.State(last.State).Terminal() {
		return nil, explain(flow.ErrSessionBusy, idOf(last.ID))
	}
	messages, err := said(ctx, r.Store, last.ID)
	if err != nil {
		return nil, fmt.Errorf("what was said in session %s cannot be read: %w", session, err)
	}
	return &conversation{session: session, last: last.ID, turns: last.Turn, messages: messages}, nil
}

func noSession(id string) error {
	return tipstaff.Errorf(tipstaff.InvalidArgument, "there is no session %q", id).
		WithHint("leave the session out to begin a new one").WithCommand("`tipstaff chat --list` lists them")
}

// describe says of a turn that is to be started where it belongs, and who answers with
// which tools.
func (p *prepared) describe(doc *plan.Document, v *tipstaff.Validated) {
	a := p.agents.settled[doc.Root.Agent]
	first := doc.Turn.Message
	if said := p.session.messages; len(said) > 0 {
		first = said[0].Text
	}
	v.Turn = &tipstaff.TurnStatus{Session: p.session.session, Number: p.session.turns + 1, Agent: doc.Root.Agent, Model: a.Settings.ModelName, Opening: opening(first)}
	for _, uri := range doc.AllowList() {
		if u, err := tipstaff.ParseToolURI(uri); err == nil {
			v.Tools = append(v.Tools, tool.Info(p.manifest, p.tools, u.Server, u.Tool))
		}
	}
}

// said is the conversation as the turn of a run has left it, which follows from its
// records.
func said(ctx context.Context, src source, run string) ([]agent.Message, error) {
	p, err := openProgram(ctx, src, run)
	if err != nil {
		return nil, err
	}
	turn, ok := p.(*turnProgram)
	if !ok {
		return nil, fmt.Errorf("run %s is not a turn", run)
	}
	h, err := segmentOf(ctx, src, run, 0)
	if err != nil {
		return nil, err
	}
	out, err := flow.Replay(h).Drive(ctx, replayed(turn))
	if err != nil {
		return nil, err
	}
	if out.Status == flow.Interrupted {
		return nil, out.Err
	}
	return turn.said.Messages, nil
}

// turnProgram is one step, in which an agent answers a message of a session.
type turnProgram struct {
	*planProgram
	history []agent.Message // what was said before it
	said    agent.Output    // how it came out, as far as it has
}

// openTurn reads back the conversation before a turn, and checks that it is the one that
// the program names.
func openTurn(ctx context.Context, src source, c *common, doc *plan.Document) (*turnProgram, error) {
	own, err := openPlan(ctx, src, c, doc)
	if err != nil {
		return nil, err
	}
	p := &turnProgram{planProgram: own}
	var names []string
	for name := range p.draft.Frozen {
		if strings.HasPrefix(name, tipstaff.FrozenMessage) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := src.Blob(ctx, p.draft.Frozen[name])
		if err != nil {
			return nil, fmt.Errorf("a message that run %s froze is not there: %w", p.run, err)
		}
		var m agent.Message
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("a message that run %s froze cannot be read: %w", p.run, err)
		}
		p.history = append(p.history, m)
	}
	if head := headOf(p.history); head != doc.Turn.Head {
		return nil, fmt.Errorf("run %s continues the conversation %s, but froze %s", p.run, doc.Turn.Head, head)
	}
	return p, nil
}

func (p *turnProgram) root() string { return plan.KindTurn }

func (p *turnProgram) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	h := newWalk(p.common, p.doc, p.gate).handlers()
	h.Perform = p.step
	return plan.Walk(fc, p.doc, p.inputs, h)
}

// step has the agent answer the message as it is, in its session.
func (p *turnProgram) step(fc flow.Context, call plan.Task) (flow.Result, error) {
	a, err := p.agents.of(call.Node.Agent)
	if err != nil {
		return flow.Result{}, err
	}
	t, s := p.doc.Turn, a.Settings
	s.Hop = true
	p.said, err = p.speak(fc, s, a.narrowed(p.gate, call.Node), agent.Input{Session: t.Session, History: p.history, Message: t.Message})
	if err != nil {
		return flow.Result{}, err
	}
	return flow.Result{Value: flow.JSON(p.said)}, nil
}

// count: the turn also leaves a conversation.
func (p *turnProgram) count(a *account, ev *evidence) {
	p.planProgram.count(a, ev)
	left := p.history
	if p.said.Messages != nil {
		left = p.said.Messages
	}
	ev.Session = &sessionHead{p.doc.Turn.Session, headOf(left)}
}

// branch: what is said from here on is another conversation.
func (p *turnProgram) branch(ctx context.Context, r *Runner, body *draftBody) (document, error) {
	doc, err := inSession(p.doc, &conversation{session: tipstaff.NewID(r.Now()).String(), messages: p.history}, p.doc.AllowList())
	if err != nil {
		return nil, err
	}
	body.ProgramDigest, err = r.Store.PutBlob(ctx, doc.Canonical())
	return planText{doc}, err
}

// headOf names a conversation; "" is one in which nothing was said yet.
func headOf(messages []agent.Message) string {
	if len(messages) == 0 {
		return ""
	}
	return agent.HeadOf(messages)
}

// inSession is the document of a turn with its place in a session.
func inSession(doc *plan.Document, c *conversation, tools []string) (*plan.Document, error) {
	var members map[string]any
	if err := json.Unmarshal(doc.Canonical(), &members); err != nil {
		return nil, err
	}
	members["session"], members["tools"] = c.session, tools
	delete(members, "head")
	if head := headOf(c.messages); head != "" {
		members["head"] = head
	}
	return plan.Load(canonical(flow.JSON(members)))
}
