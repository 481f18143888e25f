package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// A client that shows forms is asked for what only its person can say: the feedback that a
// decision lacks and, over standard input and output, the decision of a gate that a watch has
// come to.

// Names of forms, and of their fields. That of a gate has its id behind it.
const (
	feedbackInput = "feedback"
	gateInput     = "gate-"

	actionField = "action"
	answerField = "answer"
	noteField   = "note"
	obeyedField = "obeyed"
)

// ask puts a form to the person at a client. One that speaks the older protocol answers here.
// Another makes its call again, with the answer: until then question is what to reply. A form
// that the client does not show is one that nobody has filled in.
func (s *Server) ask(ctx context.Context, req *mcp.CallToolRequest, name string, form *mcp.ElicitParams) (answer *mcp.ElicitResult, question *mcp.CallToolResult, err error) {
	if given, ok := req.Params.InputResponses[name].(*mcp.ElicitResult); ok {
		return given, nil, nil
	}
	if began := req.Session.InitializeParams(); began == nil || began.ProtocolVersion >= sessionless {
		return nil, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{name: form}}, nil
	}
	if answer, err = req.Session.Elicit(ctx, form); err == nil {
		return answer, nil, nil
	}
	if ctx.Err() != nil {
		return nil, nil, err // whoever called is gone
	}
	s.o.Log.WarnContext(ctx, "a client has no answer to a form", "form", name, "error", err.Error())
	return &mcp.ElicitResult{Action: "cancel"}, nil, nil
}

// canAsk reports whether a client shows forms. One that says nothing of modes does.
func canAsk(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

func formOf(message string, required string, fields map[string]*jsonschema.Schema) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: &jsonschema.Schema{Type: "object", Required: []string{required}, Properties: fields}}
}

// textField is a field for words; needed: it is no use without any.
func textField(title, description string, most int, needed bool) *jsonschema.Schema {
	f := &jsonschema.Schema{Type: "string", Title: title, Description: description, MaxLength: &most}
	if needed {
		least := 1
		f.MinLength = &least
	}
	return f
}

// lacksFeedback reports whether a decision lacks nothing but feedback.
func lacksFeedback(err error) bool { return tipstaff.CodeOf(err) == tipstaff.FeedbackRequired }

// feedbackForm asks what a decision lacks.
func feedbackForm(err error) *mcp.ElicitParams {
	return formOf(strings.TrimSuffix(err.Error(), ".")+": what should whoever goes on be told?", feedbackInput, map[string]*jsonschema.Schema{
		feedbackInput: textField("Feedback", "It is passed on verbatim.", 16<<10, true)})
}

// withFeedback adds what a person has said to the arguments of a decision.
func withFeedback(arguments json.RawMessage, answer *mcp.ElicitResult) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &all); err != nil {
		return nil, invalidArguments(err)
	}
	text, _ := answer.Content[feedbackInput].(string)
	var err error
	if all[feedbackInput], err = json.Marshal(text); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// asked are the gates that were put to the person at the client: an answer is one to what was
// put, with the digest that was shown.
type asked struct {
	mu       sync.Mutex
	gates    map[string]tipstaff.AskedGate // by the names of their forms
	declined map[string]bool               // the person does not want to be asked again
}

// note notes that a gate is put, and returns the name of its form.
func (a *asked) note(g tipstaff.AskedGate) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := gateInput + g.ID.String()
	a.gates[name] = g
	return name
}

// gateToAsk is the gate to put to the person at a client, of what a tool has answered; nil: none.
func (s *Server) gateToAsk(ctx context.Context, req *mcp.CallToolRequest, out any) *tipstaff.AskedGate {
	watched, ok := out.(tipstaff.Watched)
	if !ok || watched.Trigger.Kind != tipstaff.WatchGate || tipstaff.CallerFrom(ctx).Surface != tipstaff.SurfaceStdio || !canAsk(req.ClientCapabilities()) {
		return nil
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	for i, g := range watched.Asked {
		if s.o.Control.Elicits != nil && s.o.Control.Elicits(g.Kind) && len(g.Available()) > 0 && !s.asked.declined[gateInput+g.ID.String()] {
			return &watched.Asked[i]
		}
	}
	return nil
}

// gateForm shows a gate as every surface does, with what can be answered.
func gateForm(g tipstaff.AskedGate) *mcp.ElicitParams {
	shown := tipstaff.Subject(g.Gate)
	lines := []string{tipstaff.Printable(g.Question), fmt.Sprintf("asked by run %s at %s", g.Run, tipstaff.Printable(g.Place()))}
	lines = append(lines, shown.Lines...)
	if !shown.Whole {
		lines = append(lines, "cut; all of it: "+tipstaff.CommandLine("show", g.Run.String(), "--gate", g.Typable()))
	}
	lines = append(lines, "digest of the subject: "+g.Digest)
	action := &jsonschema.Schema{Type: "string", Title: "Decision"}
	fields := map[string]*jsonschema.Schema{actionField: action, noteField: textField("Note", "why, for the record", 4<<10, false)}
	var feedback []string
	answers := false
	for _, name := range g.Available() {
		action.Enum = append(action.Enum, name)
		if tipstaff.NeedsFeedback(name) {
			feedback = append(feedback, name)
		}
		answers = answers || tipstaff.NeedsAnswer(g.Gate, name)
		if files := tipstaff.AsksAgain(g.Gate, name); len(files) > 0 {
			fields[obeyedField] = &jsonschema.Schema{Type: "boolean", Title: "Change what is obeyed, too",
				Description: "needed by " + name + ", which changes what runs and programs obey: " + strings.Join(files, ", ")}
		}
	}
	if len(feedback) > 0 {
		fields[feedbackInput] = textField("Feedback", "told to whoever goes on, verbatim; needed by "+strings.Join(feedback, ", "), 16<<10, false)
	}
	if answers {
		maps.Copy(fields, answerFields(g.Gate))
	}
	return formOf(strings.Join(lines, "\n"), actionField, fields)
}

// answerFields are those of the value that an action takes: one for each question of a
// clarification, else one for text or JSON.
func answerFields(g tipstaff.Gate) map[string]*jsonschema.Schema {
	fields := map[string]*jsonschema.Schema{}
	for i, q := range tipstaff.QuestionsOf(g) {
		f := &jsonschema.Schema{Type: "string", Description: q.Text()}
		switch q.Type {
		case "number", "boolean":
			f.Type = q.Type
		case "choice":
			for _, option := range q.Options {
				f.Enum = append(f.Enum, option)
			}
		}
		fields[questionField(i)] = f
	}
	if len(fields) == 0 {
		fields[answerField] = textField("Answer", "text, or JSON", 16<<10, false)
	}
	return fields
}

func questionField(i int) string { return fmt.Sprintf("%s_%d", answerField, i+1) }

// answerOf is the value that a person has given with an action that takes one.
func answerOf(g tipstaff.Gate, content map[string]any) (json.RawMessage, error) {
	questions := tipstaff.QuestionsOf(g)
	if len(questions) == 0 {
		text, _ := content[answerField].(string)
		if text == "" {
			return nil, nil
		}
		return tipstaff.TypedValue(text), nil
	}
	by := map[string]any{}
	for i, q := range questions {
		if v, ok := content[questionField(i)]; ok && v != "" {
			by[q.ID] = v
		}
	}
	return json.Marshal(by)
}

// decideAnswered closes the gates that the calls before have put to a person, and that this
// call brings the answers to.
func (s *Server) decideAnswered(ctx context.Context, req *mcp.CallToolRequest) (answered bool, err error) {
	for name, response := range req.Params.InputResponses {
		answer, ok := response.(*mcp.ElicitResult)
		if !ok || !strings.HasPrefix(name, gateInput) {
			continue
		}
		s.asked.mu.Lock()
		g, put := s.asked.gates[name]
		s.asked.mu.Unlock()
		if !put {
			return true, tipstaff.Errorf(tipstaff.InvalidArgument, "there is an answer to %s, which nobody has asked", tipstaff.Quote(name, 100)).
				WithHint("watch the run: its gates are put to the person then")
		}
		answered = true
		err = errors.Join(err, s.decideAs(ctx, name, g, answer))
	}
	return answered, err
}

// decideAs closes a gate as a person has answered it through the client. One who does not
// answer leaves it open, and is not asked again.
func (s *Server) decideAs(ctx context.Context, name string, g tipstaff.AskedGate, answer *mcp.ElicitResult) error {
	if answer.Action != "accept" {
		s.asked.mu.Lock()
		defer s.asked.mu.Unlock()
		s.asked.declined[name] = true
		return nil
	}
	text := func(field string) string { t, _ := answer.Content[field].(string); return t }
	d := tipstaff.GateDecision{Run: g.Run, Gate: g.ID, Action: text(actionField), Note: text(noteField), SubjectDigest: g.Digest}
	if tipstaff.NeedsFeedback(d.Action) {
		d.Feedback = text(feedbackInput)
	}
	if tipstaff.NeedsAnswer(g.Gate, d.Action) {
		var err error
		if d.Answer, err = answerOf(g.Gate, answer.Content); err != nil {
			return invalidArguments(err)
		}
	}
	if agreed, _ := answer.Content[obeyedField].(bool); agreed && len(tipstaff.AsksAgain(g.Gate, d.Action)) > 0 {
		d.Answer = tipstaff.AcceptObeyed()
	}
	_, err := s.o.Control.DecideElicited(ctx, d)
	return err
}
