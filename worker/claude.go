package worker

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Claude Code.
var claude = cliType{
	name: "claude", command: "claude", install: "npm install -g @anthropic-ai/claude-code",
	passed: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
	always: []string{"DISABLE_AUTOUPDATER=1"},
	sets:   []string{"IS_SANDBOX"},
	reads:  []string{"Read", "Grep", "Glob", "LS", "NotebookRead"},
	edits:  map[string]string{"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"},
	execs:  []string{"Bash"},
	nets:   []string{"WebFetch", "WebSearch"},
	hook:   true, denialsKnown: true, midTurn: true, cumulative: counted{cost: true},
	reservedFlags: []string{"-p", "--print", "--verbose", "--output-format", "--input-format", "--include-partial-messages", "--include-hook-events",
		"--replay-user-messages", "--json-schema", "--permission-mode", "--permission-prompt-tool", "--allowedTools", "--allowed-tools", "--disallowedTools",
		"--disallowed-tools", "--tools", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--enable-auto-mode", "--setting-sources",
		"--settings", "--mcp-config", "--strict-mcp-config", "--model", "-m", "--max-budget-usd", "--session-id", "-r", "--resume", "-c", "--continue",
		"--fork-session", "--resume-session-at", "--from-pr", "--no-session-persistence", "--bg", "--background", "--remote", "--teleport", "--sdk-url",
		"-w", "--worktree", "--tmux", "--add-dir", "--plugin-dir", "--plugin-url", "--agent", "--agents", "--init", "--init-only", "--maintenance", "--mcp-debug", "--channels",
		"--dangerously-load-development-channels", "-n", "--name", "--bare", "--safe-mode", "--ide", "--chrome", "-h", "--help", "-v", "--version"},
	stance: func(p Posture, v verdicts) stance {
		const hook = "mcp__" + ServerName + "__approve"
		var allowed []string
		for _, t := range taskTools() {
			allowed = append(allowed, "mcp__"+ServerName+"__"+t)
		}
		channel := []string{"--allowedTools", strings.Join(allowed, ",")}
		switch p {
		case ReadOnly:
			return stance{flags: append([]string{"--permission-mode", "dontAsk", "--disallowedTools", "Edit,Write,NotebookEdit"}, channel...)}
		case Write:
			// Commands that only change files in the directory run without being asked for, too.
			return stance{hook: true, open: []string{edits, execs}, flags: append([]string{"--permission-mode", "acceptEdits", "--permission-prompt-tool", hook}, channel...)}
		case Bypass:
			return stance{open: []string{edits, execs, nets}, flags: []string{"--dangerously-skip-permissions"}}
		}
		return stance{hook: true, flags: append([]string{"--permission-mode", "default", "--permission-prompt-tool", hook}, channel...)}
	},
	prepare: func(l *launch) error {
		if l.o.Posture == Bypass && os.Geteuid() == 0 {
			l.setenv("IS_SANDBOX", "1") // else it refuses to run so as root
		}
		l.set("settings", l.pick("", "user"))
		env := map[string]string{}
		for _, name := range channelEnv() {
			env[name] = "${" + name + ":-}"
		}
		file, err := l.write("mcp.json", object{"mcpServers": object{ServerName: object{
			"type": "stdio", "command": l.self, "args": []string{"worker-mcp"}, "env": env}}})
		l.set("channel", file)
		if l.o.Limits.CostUSD > 0 {
			l.set("budget", l.o.Limits.CostUSD.String())
		}
		return err
	},
	reader:  func(m *mapper) reader { return &claudeReader{m: m} },
	mcpTool: joined("mcp__", "__"),
	signs: []sign{
		{SessionConflict, nil, 1, regexp.MustCompile(`(?i)session id \S+ is already in use`)},
		{SessionLost, onResume, 1, regexp.MustCompile(`(?i)no conversation found with session id`)},
	},
}

type claudeReader struct {
	m       *mapper
	servers []string
}

// claudeLine is decoded by hand: reflection took four times as long, and this is the CLI
// that prints most.
type claudeLine struct {
	kind, subtype string
	session       string
	parent        string
	message       []byte // of permission_denied a text
	isError       bool
	result        string
	stopReason    string
	tool, callID  string
	rare          claudeRare
}

// claudeRare are the members that few lines have.
type claudeRare struct {
	MCP     []claudeServer `json:"mcp_servers"`
	Errors  []string       `json:"errors"`
	Cost    json.Number    `json:"total_cost_usd"`
	Usage   *claudeUsage   `json:"usage"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

func (l *claudeLine) decode(line []byte) bool {
	return members(line, func(name string, value []byte) {
		switch name {
		case "type":
			l.kind = jsonText(value)
		case "subtype":
			l.subtype = jsonText(value)
		case "session_id":
			l.session = jsonText(value)
		case "parent_tool_use_id":
			l.parent = jsonText(value)
		case "message":
			l.message = value
		case "is_error":
			l.isError = string(value) == "true"
		case "result":
			l.result = jsonText(value)
		case "stop_reason":
			l.stopReason = jsonText(value)
		case "tool_name":
			l.tool = jsonText(value)
		case "tool_use_id":
			l.callID = jsonText(value)
		}
	})
}

type claudeServer struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

type claudeMessage struct {
	id, model string
	content   blocks
	usage     *claudeUsage
}

func (m *claudeMessage) decode(message []byte) bool {
	return members(message, func(name string, value []byte) {
		switch name {
		case "id":
			m.id = jsonText(value)
		case "model":
			m.model = jsonText(value)
		case "content":
			m.content.decode(value)
		case "usage":
			decode(value, &m.usage)
		}
	})
}

type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (u *claudeUsage) usage() tipstaff.ModelUsage {
	return summed(tipstaff.ModelUsage{InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output,
		CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Details.Thinking})
}

func (r *claudeReader) read(line []byte) bool {
	var l claudeLine
	if !l.decode(line) {
		return false
	}
	r.m.session(l.session)
	switch l.kind {
	case "system":
		decode(line, &l.rare)
		r.system(&l)
	case "assistant":
		var message claudeMessage
		if message.decode(l.message) {
			r.assistant(l.parent, &message)
		}
	case "user":
		var message claudeMessage
		if message.decode(l.message) {
			r.results(message.content)
		}
	case "result":
		decode(line, &l.rare)
		r.end(&l)
	}
	return true
}

func (r *claudeReader) system(l *claudeLine) {
	switch l.subtype {
	case "init":
		r.servers = []string{ServerName}
		status := "absent"
		for _, s := range l.rare.MCP {
			r.servers = append(r.servers, s.Name)
			if s.Name == ServerName {
				status = s.Status
			}
		}
		if status != "connected" {
			r.m.channelFailed(status)
		}
		r.m.other(tipstaff.WorkerInit)
	case "api_retry":
		r.m.other(tipstaff.WorkerRetry)
	case "permission_denied":
		r.m.denied(l.callID, l.tool, nil, jsonText(l.message))
		r.m.other(tipstaff.WorkerDenied)
	}
}

func (r *claudeReader) assistant(parent string, message *claudeMessage) {
	r.m.message(parent, message.id, message.model)
	if message.usage != nil {
		r.m.using(parent, message.usage.usage())
	}
	for _, b := range message.content {
		switch b.kind {
		case "text":
			r.m.say(parent, b.text)
		case "tool_use", "server_tool_use":
			server, tool := claude.resolve(b.name, r.servers)
			r.m.call(toolCall{parent: parent, id: b.id, name: b.name, server: server, tool: tool, args: b.input})
		case "thinking", "redacted_thinking":
			r.m.other(tipstaff.WorkerThinking)
		default:
			r.m.other(tipstaff.WorkerUnknown)
		}
	}
}

func (r *claudeReader) results(content blocks) {
	for _, b := range content {
		if b.kind == "tool_result" {
			if a := r.m.asked[b.callID]; a != nil && b.isError && strings.Contains(b.content.text(), "is disabled for this session") {
				r.m.denied(b.callID, a.name, nil, b.content.text()) // of --disallowedTools it tells in no other way
			}
			r.m.result(b.callID, b.content.text(), b.isError, "")
		} else {
			r.m.other(tipstaff.WorkerUnknown)
		}
	}
}

func (r *claudeReader) end(l *claudeLine) {
	for _, d := range l.rare.Denials {
		r.m.denied(d.ID, d.Tool, d.Input, "")
	}
	e := ending{isError: l.isError, text: l.result, msg: tipstaff.Joined("; ", l.rare.Errors...), reason: claudeReason(l.stopReason)}
	if l.isError && e.msg == "" {
		e.msg = tipstaff.Joined(": ", l.subtype, l.result)
	}
	if l.subtype == "error_max_budget_usd" {
		e.limit = limitCost
	}
	if l.rare.Usage != nil {
		u := l.rare.Usage.usage()
		e.usage = &u
	}
	if cost, ok := dollars(l.rare.Cost); ok {
		e.cost = &cost
	}
	r.m.end(e)
}

func claudeReason(stop string) string {
	switch stop {
	case "max_tokens":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return "stop"
}
