package worker

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// opencode.
var opencode = cliType{
	name: "opencode", command: "opencode", install: "npm install -g opencode-ai",
	reads:        []string{"read", "glob", "grep", "list"},
	edits:        map[string]string{"edit": "filePath", "write": "filePath"},
	execs:        []string{"bash"},
	nets:         []string{"webfetch", "websearch", "codesearch"},
	denialsKnown: true, midTurn: true,
	reservedFlags: []string{"--pure", "--format", "-m", "--model", "-s", "--session", "-c", "--continue", "--fork", "--share", "--attach", "--port", "--dir", "--command",
		"-f", "--file", "--agent", "--dangerously-skip-permissions", "--auto", "--yolo", "--title", "-p", "--password", "-u", "--username", "--interactive", "-i", "--replay", "--replay-limit", "-h", "--help", "-v", "--version"},
	always: []string{"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_PROJECT_CONFIG=1"}, // else the tree starts servers and sets permissions
	sets: []string{"OPENCODE_CONFIG_CONTENT", "XDG_CONFIG_HOME"},
	stance: func(p Posture, v verdicts) stance {
		switch p {
		case ReadOnly:
			return stance{may: map[string]bool{}}
		case Write:
			return stance{open: []string{edits}, may: v.allowed(edits)}
		case Bypass:
			return stance{open: []string{edits, execs, nets}}
		}
		return stance{may: v.allowed(), cannot: v.mixed(edits)} // one permission
	},
	// OPENCODE_DISABLE_PROJECT_CONFIG is not asked by all of it: plugins are loaded all the same.
	obeys: func(o *Options) ([]string, error) {
		return present(o, ".opencode", "opencode.json", "opencode.jsonc"), nil
	},
	prepare: func(l *launch) error {
		env := map[string]string{}
		for _, name := range channelEnv() {
			env[name] = "{env:" + name + "}"
		}
		config := flow.JSON(object{
			"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
			"permission": opencodePermission(l.stance.may),
			"mcp":        object{ServerName: object{"type": "local", "command": []string{l.self, "worker-mcp"}, "environment": env, "enabled": true}}})
		l.setenv("OPENCODE_CONFIG_CONTENT", string(config))
		if l.pick("none", "user") == "none" {
			l.setenv("XDG_CONFIG_HOME", filepath.Join(l.o.Folder, "config"))
		}
		return l.mkdir("config")
	},
	reader:  func(m *mapper) reader { return &opencodeReader{m: m} },
	mcpTool: joined("", "_"),
	signs: []sign{
		{SessionLost, onResume, 1, regexp.MustCompile(`(?i)session not found`)},
	},
}

// opencodePermission is in the order in which opencode reads it: later rules win.
func opencodePermission(may map[string]bool) json.RawMessage {
	if may == nil {
		return json.RawMessage(`{"*":"allow"}`)
	}
	rules := []string{`"*":"deny"`, `"read":"allow"`, `"glob":"allow"`, `"grep":"allow"`, `"list":"allow"`, `"` + ServerName + `_*":"allow"`}
	for _, rule := range []struct{ permission, tool string }{{"edit", "edit"}, {"bash", "bash"}, {"webfetch", "webfetch"}, {"websearch", "websearch"}, {"codesearch", "codesearch"}} {
		effect := Deny
		if may[rule.tool] {
			effect = Allow
		}
		rules = append(rules, `"`+rule.permission+`":"`+effect+`"`)
	}
	return json.RawMessage("{" + strings.Join(rules, ",") + "}")
}

type opencodeReader struct {
	m    *mapper
	sum  tipstaff.ModelUsage
	cost tipstaff.USD
	free bool // some step cost nothing though it used tokens: no price is known to the CLI
}

type opencodeLine struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    struct {
		Message string `json:"messageID"`
		Text    string `json:"text"`
		Tool    string `json:"tool"`
		CallID  string `json:"callID"`
		Reason  string `json:"reason"`
		State   struct {
			Status string          `json:"status"`
			Input  json.RawMessage `json:"input"`
			Output blocks          `json:"output"`
			Error  string          `json:"error"`
		} `json:"state"`
		Tokens *struct {
			Input     int64 `json:"input"`
			Output    int64 `json:"output"`
			Reasoning int64 `json:"reasoning"`
			Cache     struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
		Cost json.Number `json:"cost"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

func (r *opencodeReader) read(line []byte) bool {
	var l opencodeLine
	if !decode(line, &l) {
		return false
	}
	r.m.session(l.Session)
	p := &l.Part
	switch l.Type {
	case "step_start":
		r.m.resumed()
		r.m.message("", p.Message, "")
	case "text":
		r.m.message("", p.Message, "")
		r.m.say("", p.Text)
	case "reasoning":
		r.m.other(tipstaff.WorkerThinking)
	case "tool_use":
		r.tool(&l)
	case "step_finish":
		r.finish(&l)
	case "error":
		r.m.end(r.ending(true, tipstaff.Joined(": ", l.Error.Name, l.Error.Data.Message)))
	}
	return true
}

var opencodeDenial = regexp.MustCompile(`(?i)model tried to call unavailable tool|rule which prevents you from using this specific tool call|rejected permission`)

func (r *opencodeReader) tool(l *opencodeLine) {
	p := &l.Part
	server, tool := opencode.resolve(p.Tool, []string{ServerName})
	r.m.message("", p.Message, "")
	r.m.call(toolCall{id: p.CallID, name: p.Tool, server: server, tool: tool, args: p.State.Input})
	if p.State.Status != "error" {
		r.m.result(p.CallID, p.State.Output.text(), false, "")
		return
	}
	class := ""
	if opencodeDenial.MatchString(p.State.Error) {
		class = denied
		r.m.denied(p.CallID, p.Tool, p.State.Input, p.State.Error)
	}
	r.m.result(p.CallID, p.State.Error, true, class)
}

func (r *opencodeReader) finish(l *opencodeLine) {
	p := &l.Part
	if t := p.Tokens; t != nil {
		u := summed(tipstaff.ModelUsage{InputTokens: t.Input + t.Cache.Read + t.Cache.Write, OutputTokens: t.Output + t.Reasoning,
			CacheReadTokens: t.Cache.Read, CacheWriteTokens: t.Cache.Write, ReasoningTokens: t.Reasoning})
		r.sum = plus(r.sum, u)
		r.m.using("", u)
		cost, ok := dollars(p.Cost)
		r.cost += cost
		r.free = r.free || !ok || cost == 0 && u.TotalTokens > 0
	}
	if p.Reason != "tool-calls" {
		r.m.end(r.ending(false, ""))
	}
}

func (r *opencodeReader) ending(isError bool, msg string) ending {
	u := r.sum
	e := ending{isError: isError, msg: msg, usage: &u}
	if r.cost > 0 && !r.free {
		c := r.cost
		e.cost = &c
	}
	return e
}
