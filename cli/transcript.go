package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// cuts say how much of a conversation is printed.
type cuts struct {
	messages int // the first one and the last ones, so many in all; 0: all
	text     int // bytes of a message; 0: all
	detail   int // cells of arguments, and of how a result begins
}

var (
	whole = cuts{detail: 2 * maxDetail}
	brief = cuts{messages: 20, text: 2000, detail: maxDetail}
)

// printConversation prints what was said in a run: of a turn, the conversation up to its end.
func (o *showOptions) printConversation(ctx context.Context, svc tipstaff.Service, run tipstaff.Run) error {
	runs := []tipstaff.Run{run}
	if run.Turn != nil {
		var err error
		if runs, err = tipstaff.TurnsUpTo(ctx, svc, run); err != nil {
			return err
		}
	}
	none := true
	for _, r := range runs {
		said, err := tipstaff.Transcript(ctx, svc, r)
		if err != nil {
			return err
		}
		none = none && len(said) == 0
		if !o.json {
			printTranscript(o.out, said, whole, o.env.colored(o.env.StdoutTTY))
			continue
		}
		for _, m := range said {
			if err := o.writeJSON(m); err != nil {
				return err
			}
		}
	}
	if none && !o.json {
		fmt.Fprintln(o.err, "no agent has said anything in this run")
	}
	return nil
}

// printTranscript prints messages, with tool calls in short lines. An agent that is no
// turn's is named.
func printTranscript(w io.Writer, said []tipstaff.TranscriptMessage, c cuts, colored bool) {
	calls := map[string]tipstaff.TranscriptCall{}
	for _, m := range said {
		for _, call := range m.Calls {
			calls[call.ID] = call
		}
	}
	at, left := tipstaff.ProgramTurn, 0
	if c.messages > 0 {
		left = max(0, len(said)-c.messages)
	}
	for i, m := range said {
		call := calls[m.CallID]
		delete(calls, m.CallID)
		if i == 1 && left > 0 {
			fmt.Fprintln(w, line{say(dim, "… "+plural(left, "message")+" left out …")}.text(colored))
		}
		if i > 0 && i <= left {
			continue
		}
		if m.Path != at {
			at = m.Path
			fmt.Fprintln(w, line{say(bold, at)}.text(colored))
		}
		switch m.Role {
		case tipstaff.RoleUser:
			text := strings.ReplaceAll(strings.ReplaceAll(c.cut(m.Text), "\n", "\n  "), "\n  \n", "\n\n")
			fmt.Fprintln(w, line{say(bold, strings.TrimSpace(chatPrompt))}.text(colored)+" "+text)
		case tipstaff.RoleAssistant:
			if m.Text != "" {
				fmt.Fprintln(w, c.cut(m.Text))
			}
		case tipstaff.RoleTool:
			printCall(w, call, &m, c, colored)
		case tipstaff.RoleError:
			fmt.Fprintln(w, line{marks[tipstaff.NodeFailed], say(plain, " "+tipstaff.Joined(": ", m.Code, m.Text))}.text(colored))
		}
	}
	for _, m := range said { // in their order
		for _, call := range m.Calls {
			if _, open := calls[call.ID]; open {
				printCall(w, call, nil, c, colored)
			}
		}
	}
}

// printCall prints a call with its result; nil: there is none yet.
func printCall(w io.Writer, call tipstaff.TranscriptCall, result *tipstaff.TranscriptMessage, c cuts, colored bool) {
	mark, text := marks[tipstaff.NodeWaiting], "no result yet"
	if result != nil {
		mark = marks[tipstaff.NodeDone]
		if result.IsError {
			mark = marks[tipstaff.NodeFailed]
		}
		text = tipstaff.Joined(": ", result.Code, strings.Join(strings.Fields(result.Text), " "))
		if result.Bytes > 0 {
			text = fit(clean(text), c.detail) + fmt.Sprintf("  (%d bytes)", result.Bytes)
		}
	}
	l := line{span{"  ", plain}, mark, say(plain, " "+call.Name+" "+fit(clean(string(call.Arguments)), c.detail))}
	fmt.Fprintln(w, l.and(dim, tipstaff.Joined("  ", string(call.Effect), call.Decision)).text(colored))
	if text != "" {
		fmt.Fprintln(w, line{span{"    ", plain}, say(dim, text)}.text(colored))
	}
}

// cut is a text for a terminal, shortened.
func (c cuts) cut(text string) string {
	text = strings.TrimRight(text, "\n")
	if c.text == 0 || len(text) <= c.text {
		return cleanText(text)
	}
	return cleanText(strings.ToValidUTF8(text[:c.text], "")) + fmt.Sprintf(" … (%d bytes in all)", len(text))
}
