package worker

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// The scripted worker: Tipstaff's own agent, with answers from a file. It prints one JSON
// object per line: {"kind":"session","id":…} first, then {"kind":"agent.…","body":{…}} as
// its agent tells them, and last {"kind":"end","is_error":…,"usage":{…},"cost_usd":"…"}.
var scripted = cliType{
	name:  "scripted",
	reads: []string{"read_file", "list_dir", "json_query"},
	edits: map[string]string{"write_file": "path"},
	execs: []string{"exec"},
	nets:  []string{"http_get"},
	hook:  true, denialsKnown: true, midTurn: true,
	reservedFlags: []string{"--script", "--session", "--resume", "--posture", "--workspace", "--server", "-h", "--help"},
	stance: func(p Posture, v verdicts) stance {
		if p == Bypass {
			return stance{open: []string{edits, execs, nets}}
		}
		return stance{hook: true}
	},
	prepare: func(l *launch) error {
		if l.script == "" {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "a scripted worker has no script").WithHint("set its script to a file of answers")
		}
		l.set("script", l.script)
		l.setenv("TIPSTAFF_WORKSPACE", l.o.Dir)
		l.setenv("TIPSTAFF_WORKER_POSTURE", string(l.o.Posture))
		l.setenv("TIPSTAFF_WORKER_HOME", l.o.Folder)
		return nil
	},
	signs: []sign{
		{outcome: SessionConflict, text: regexp.MustCompile(`session id \S+ is in use`)},
		{outcome: SessionLost, text: regexp.MustCompile(`no session \S+`)},
	},
	reader: func(m *mapper) reader { return &scriptedReader{m: m} },
}

type scriptedReader struct{ m *mapper }

type scriptedLine struct {
	Kind    string               `json:"kind"`
	Body    json.RawMessage      `json:"body"`
	ID      string               `json:"id"`
	IsError bool                 `json:"is_error"`
	Message string               `json:"message"`
	Usage   *tipstaff.ModelUsage `json:"usage"`
	Cost    *tipstaff.USD        `json:"cost_usd"`
}

func (r *scriptedReader) read(line []byte) bool {
	var l scriptedLine
	if !decode(line, &l) {
		return false
	}
	switch l.Kind {
	case "session":
		r.m.session(l.ID)
		r.m.other(tipstaff.WorkerInit)
	case string(tipstaff.KindAgentStepStarted):
		var b tipstaff.AgentStepStarted
		decode(l.Body, &b)
		r.m.begin("", "", b.Model)
	case string(tipstaff.KindAgentTextDelta):
		var b tipstaff.AgentTextDelta
		decode(l.Body, &b)
		if b.Channel == "answer" {
			r.m.say("", b.Text)
		} else {
			r.m.other(tipstaff.WorkerThinking)
		}
	case string(tipstaff.KindAgentMessage):
		r.message(l.Body)
	case string(tipstaff.KindAgentToolCallRequest):
		var b tipstaff.AgentToolCallRequest
		decode(l.Body, &b)
		c := toolCall{id: b.ID, name: b.Name, server: nativeServer("scripted"), tool: b.Tool, args: b.Arguments}
		if b.Server == ServerName {
			c.server = ServerName
		}
		r.m.call(c)
	case string(tipstaff.KindAgentToolCallResult):
		var b tipstaff.AgentToolCallResult
		decode(l.Body, &b)
		r.m.result(b.ID, b.Content, b.IsError, b.Class)
	case "end":
		e := ending{isError: l.IsError, msg: l.Message, cost: l.Cost}
		if l.Usage != nil {
			u := summed(*l.Usage)
			u.CostUSD = nil
			e.usage = &u
		}
		r.m.end(e)
	}
	return true
}

func (r *scriptedReader) message(body json.RawMessage) {
	var b tipstaff.AgentMessage
	decode(body, &b)
	s := r.m.current("", false)
	if rest, ok := strings.CutPrefix(b.Text, s.text.String()); ok { // deltas may have told it
		r.m.say("", rest)
	}
	if b.Usage != nil {
		r.m.using("", summed(*b.Usage))
	}
	reason := "stop"
	if b.Calls > 0 {
		reason = "tool_calls"
	}
	r.m.tellMessage("", reason)
}
