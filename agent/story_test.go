package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// TestStories tells turns from beginning to end: testdata/turn. The commands:
//
//	tools          per line: server/tool, its class and flags, and what it does when it
//	               is called the first, second … time, after a colon and between bars:
//	               a text that it answers, or !code (! alone: it is lost)
//	policy         per line: glob, action, and perhaps a condition
//	settings       per line: name and value of a setting, as JSON
//	model          per line: step, a colon, and what the model says; behind each ->
//	               stands a call. [length] in front gives another reason
//	turn           takes a turn. Input: what the user says. Prints its events
//	decide KEY A   answers a gate. Input: the answer, as JSON
//	cancel         asks for the end of the turn
//	resume         goes on with it, and prints the further events
//	session        prints the conversation
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/turn", func(t *testing.T, file string) {
		s := &story{bed: newBed(nil), script: map[int]agent.Response{}}
		s.bed.model.answer = s.answer
		s.bed.cfg.Policy = nil
		datadriven.RunTest(t, file, s.command)
	})
}

type story struct {
	*bed
	script map[int]agent.Response
	shown  int
}

func (s *story) command(t *testing.T, c *datadriven.TestData) string {
	switch c.Cmd {
	case "tools":
		s.declare(c.Input)
	case "policy":
		s.cfg.Policy = rules(strings.Split(c.Input, "\n")...)
	case "settings":
		s.set(t, c.Input)
	case "model":
		s.write(c.Input)
	case "turn":
		if s.log.Records(theRun) != nil { // the next of the session
			s.in.History, s.log, s.shown = s.out.Messages, flow.NewMem(), 0
		}
		s.in.Message = c.Input
		return s.proceed(t)
	case "resume":
		return s.proceed(t)
	case "decide":
		s.decide(t, c.CmdArgs[0].Key, flow.Decision{Action: c.CmdArgs[1].Key, Answer: json.RawMessage(strings.TrimSpace(c.Input))})
	case "cancel":
		if err := s.log.Write(theRun, flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{"mode":"graceful"}`)}); err != nil {
			t.Fatal(err)
		}
	case "session":
		return s.session()
	default:
		t.Fatalf("unknown command %s", c.Cmd)
	}
	return "ok\n"
}

func (s *story) declare(input string) {
	for _, line := range strings.Split(input, "\n") {
		head, does, acts := strings.Cut(line, ":")
		words := strings.Fields(head)
		s.world.tools = append(s.world.tools, aTool(words[0], words[1:]...))
		if acts {
			s.world.acts[words[0]] = behaves(strings.Split(does, "|"))
		}
	}
}

// behaves is a tool that does one thing after the other, and the last for good.
func behaves(does []string) act {
	return func(_ context.Context, _ tool.Input, n int) (tool.Reply, error) {
		do := strings.TrimSpace(does[min(n, len(does))-1])
		code, failed := strings.CutPrefix(do, "!")
		switch {
		case !failed:
			return text(do), nil
		case code == "":
			return tool.Reply{}, &flow.Error{Code: flow.CodeTimeout, Message: "no answer"}
		case code == tool.CodeToolError:
			return tool.Reply{}, &flow.Error{Code: code, Detail: flow.JSON(text("it went wrong")), Answered: true}
		}
		return tool.Reply{}, &flow.Error{Code: code, Message: "it cannot be done", Answered: true}
	}
}

func (s *story) set(t *testing.T, input string) {
	var members []string
	for _, line := range strings.Split(input, "\n") {
		name, value, _ := strings.Cut(line, " ")
		members = append(members, fmt.Sprintf("%q: %s", name, value))
	}
	if err := json.Unmarshal([]byte("{"+strings.Join(members, ",")+"}"), &s.cfg.Settings); err != nil {
		t.Fatal(err)
	}
}

func (s *story) write(input string) {
	s.script = map[int]agent.Response{}
	for _, line := range strings.Split(input, "\n") {
		var step int
		number, says, _ := strings.Cut(line, ":")
		fmt.Sscan(number, &step)
		r := agent.Response{Reason: agent.ReasonStop, Usage: &agent.Usage{}}
		says = strings.TrimSpace(says)
		if rest, ok := strings.CutPrefix(says, "["); ok {
			reason, rest, _ := strings.Cut(rest, "]")
			r.Reason, says = agent.Reason(reason), strings.TrimSpace(rest)
		}
		parts := strings.Split(says, "->")
		r.Text = strings.TrimSpace(parts[0])
		for i, call := range parts[1:] {
			name, args, _ := strings.Cut(strings.TrimSpace(call), " ")
			r.Calls = append(r.Calls, agent.Call{ID: fmt.Sprintf("call_%d_%d", step, i+1), Name: name, Arguments: args})
		}
		s.script[step] = r
	}
}

func (s *story) answer(r agent.Request) (agent.Response, error) {
	if a, ok := s.script[stepOf(r)]; ok {
		return a, nil
	}
	return agent.Response{}, &flow.Error{Code: "script_exhausted", Message: "there is no step " + r.Path, Answered: true}
}

// proceed drives the turn, and prints what that added.
func (s *story) proceed(t *testing.T) string {
	out := s.take(t)
	events := s.events()
	var b strings.Builder
	for _, e := range events[s.shown:] {
		fmt.Fprintln(&b, show(e.Body))
	}
	s.shown = len(events)
	fmt.Fprintf(&b, "= %s", out.Status)
	for _, g := range openGates(s.log.Records(theRun)) {
		if !out.Status.Terminal() {
			fmt.Fprintf(&b, " on %s (%s)", g.path, strings.Join(g.Actions, ", "))
		}
	}
	return b.String() + "\n"
}

// show is what a reader wants to know of an event.
func show(body agent.Body) string {
	switch e := body.(type) {
	case *agent.StepStarted:
		return fmt.Sprintf("step %d: %d messages, %d tools", e.Step, e.Messages, e.Tools)
	case *agent.MessageDone:
		return fmt.Sprintf("  says %q (%s), %d calls", e.Text, e.Reason, e.Calls)
	case *agent.ToolCallRequest:
		return strings.TrimRight(fmt.Sprintf("  %s wants %s %s %s", e.ID, e.Name, e.Arguments, e.Effect), " ")
	case *agent.ApprovalRequested:
		return fmt.Sprintf("  %s waits for approval: %s", e.ID, e.Rule)
	case *agent.ApprovalDecided:
		return strings.TrimRight(fmt.Sprintf("  %s is decided: %s by %s, %s", e.ID, e.Decision, e.By, e.Rule), " ")
	case *agent.ToolCallResult:
		class, untrusted := e.Class, ""
		if class == "" {
			class = "done"
		}
		if e.Untrusted {
			untrusted = " (untrusted)"
		}
		return fmt.Sprintf("  %s is %s%s: %q", e.ID, class, untrusted, e.Content)
	case *agent.Finish:
		return fmt.Sprintf("finish (%s): %q after %d steps and %d calls", e.Reason, e.Text, e.Steps, e.ToolCalls)
	case *agent.Failed:
		return strings.TrimRight(fmt.Sprintf("error %s after %d steps %s", e.Code, e.Steps, e.Which), " ")
	}
	return string(agent.Event{Body: body}.Type())
}

func (s *story) session() string {
	var b strings.Builder
	for _, m := range s.out.Messages {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Text)
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "-> %s %s %s ", c.ID, c.Name, c.Arguments)
		}
		if m.Role == agent.FromTool {
			fmt.Fprintf(&b, "%s", m.CallID)
			for _, c := range m.Content {
				fmt.Fprintf(&b, " %q", c.Text)
			}
		}
		if m.Partial {
			b.WriteString(" (broken off)")
		}
		b.WriteString("\n")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(slices.Clip(lines), "\n")
}
