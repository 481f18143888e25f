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
)

// A session is a chain of turns, each a run of its own. What was said before a turn
// is frozen into it message by message, so that a message is stored once however
// many turns follow it.

// frozenMessage begins the names under which intent.draft lists the messages of a
// conversation; their order is that of the names.
const frozenMessage = "message/"

// sessionHead is what evidence says of a turn's session.
type sessionHead struct {
	ID   string `json:"id"`
	Head string `json:"head"` // of the conversation, as the turn leaves it
}

// conversation is what a session holds before its next turn.
type conversation struct {
	session  string
	last     string // the run of its last turn; "": there is none
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
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no session %q", session).
			WithHint("leave the session out to begin a new one")
	}
	last := rows[0]
	if !tipstaff.State(last.State).Terminal() {
		return nil, explain(flow.ErrSessionBusy, idOf(last.ID))
	}
	messages, err := said(ctx, r.Store, last.ID)
	if err != nil {
		return nil, fmt.Errorf("what was said in session %s cannot be read: %w", session, err)
	}
	return &conversation{session: session, last: last.ID, messages: messages}, nil
}

// said is the conversation as the turn of a run has left it, which follows from its
// records.
func said(ctx context.Context, src source, run string) ([]agent.Message, error) {
	p, err := openProgram(ctx, src, run)
	if err != nil {
		return nil, err
	}
	h, err := segmentOf(ctx, src, run, 0)
	if err != nil {
		return nil, err
	}
	out, err := flow.Replay(h).Drive(ctx, p.replayed())
	if err != nil {
		return nil, err
	}
	if out.Status == flow.Interrupted {
		return nil, out.Err
	}
	return p.spoken.Messages, nil
}

// freezeMessages stores a conversation, and enters its messages under their names.
func (r *Runner) freezeMessages(ctx context.Context, messages []agent.Message, frozen map[string]string) error {
	for i, m := range agent.MessageBlobs(messages) {
		if _, err := r.Store.PutBlob(ctx, m.Data); err != nil {
			return err
		}
		frozen[fmt.Sprintf("%s%06d", frozenMessage, i+1)] = m.Digest
	}
	return nil
}

// thawMessages reads back the conversation before a turn, and checks that it is
// the one that the program names.
func (p *program) thawMessages(ctx context.Context, src source) error {
	var names []string
	for name := range p.draft.Frozen {
		if strings.HasPrefix(name, frozenMessage) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p.history = nil
	for _, name := range names {
		data, err := src.Blob(ctx, p.draft.Frozen[name])
		if err != nil {
			return fmt.Errorf("a message that run %s froze is not there: %w", p.run, err)
		}
		var m agent.Message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("a message that run %s froze cannot be read: %w", p.run, err)
		}
		p.history = append(p.history, m)
	}
	if head := headOf(p.history); head != p.doc.Turn.Head {
		return fmt.Errorf("run %s continues the conversation %s, but froze %s", p.run, p.doc.Turn.Head, head)
	}
	return nil
}

// headOf names a conversation; "" is one in which nothing was said yet.
func headOf(messages []agent.Message) string {
	if len(messages) == 0 {
		return ""
	}
	return agent.HeadOf(messages)
}

// sessionHead is what the turn leaves; nil: the program is no turn.
func (p *program) sessionHead() *sessionHead {
	if p.doc.Turn == nil {
		return nil
	}
	left := p.history
	if p.spoken.Messages != nil {
		left = p.spoken.Messages
	}
	return &sessionHead{p.doc.Turn.Session, headOf(left)}
}

// sitDown gives a turn its place: the session it goes on with, and the tools that
// its agent may use.
func (r *Runner) sitDown(p *prepared) (err error) {
	if p.session, err = r.conversation(context.Background(), p.doc.Turn.Session); err != nil {
		return err
	}
	tools := []string{}
	if own := p.crew.agents[p.doc.Root.Agent].Tools; own != nil {
		tools = *own
	}
	p.doc, err = inSession(p.doc, p.session, tools)
	return err
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
