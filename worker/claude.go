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
	execs:  []string{"Bash"},
	nets:   []string{"WebFetch", "WebSearch"},
	hook:   true, denialsKnown: true, midTurn: true, cumulative: counted{cost: true},
	reservedFlags: []string{"-p", "--print", "--verbose", "--output-format", "--input-format", "--include-partial-messages", "--include-hook-events",
		"--replay-user-messages", "--json-schema", "--permission-mode", "--permission-prompt-tool", "--allowedTools", "--allowed-tools", "--disallowedTools",
		"--disallowed-tools", "--tools", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--enable-auto-mode", "--setting-sources",
		"--settings", "--mcp-config", "--strict-mcp-config", "--model", "-m", "--max-budget-usd", "--session-id", "-r", "--resume", "-c", "--continue",
		"--fork-session", "--resume-session-at", "--from-pr", "--no-session-persistence", "--bg", "--background", "--remote", "--teleport", "--sdk-url",
		"-w", "--worktree", "--tmux", "--add-dir", "--plugin-dir", "--plugin-url", "--agents", "--bare", "--safe-mode", "--ide", "--chrome", "-h", "--help", "-v", "--version"},
	shortValues: "d",
	stance: func(p Posture, v verdicts) stance {
		const hook = "mcp__" + ServerName + "__approve"
		var allowed []string
		for _, t := range TaskTools() {
			allowed = append(allowed, "mcp__"+ServerName+"__"+t)
		}
		channel := []string{"--allowedTools", strings.Join(allowed, ",")}
		switch p {
		case ReadOnly:
			return stance{flags: append([]string{"--permission-mode", "dontAsk", "--disallowedTools", "Edit,Write,NotebookEdit"}, channel...)}
		case Write:
			return stance{hook: true, open: []string{edits}, flags: append([]string{"--permission-mode", "acceptEdits", "--permission-prompt-tool", hook}, channel...)}
		case Bypass:
			return stance{open: []string{edits, execs, nets}, flags: []string{"--dangerously-skip-permissions"}}
		}
		return stance{hook: true, flags: append([]string{"--permission-mode", "default", "--permission-prompt-tool", hook}, channel...)}
	},
	prepare: func(l *launch) error {
		l.setenv("DISABLE_AUTOUPDATER", "1")
		if l.o.Posture == Bypass && os.Geteuid() == 0 {
			l.setenv("IS_SANDBOX", "1") // else it refuses to run so as root
		}
		l.set("settings", l.pick("", "user"))
		env := map[string]string{}
		for _, name := range l.channelEnv() {
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

type claudeLine struct {
	Type       string          `json:"type"`
	Subtype    string          `json:"subtype"`
	Session    string          `json:"session_id"`
	Parent     string          `json:"parent_tool_use_id"`
	Message    json.RawMessage `json:"message"` // of permission_denied a text
	MCP        []claudeServer  `json:"mcp_servers"`
	IsError    bool            `json:"is_error"`
	Result     string          `json:"result"`
	Errors     []string        `json:"errors"`
	StopReason string          `json:"stop_reason"`
	Cost       json.Number     `json:"total_cost_usd"`
	Usage      *claudeUsage    `json:"usage"`
	Denials    []struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
	Tool   string `json:"tool_name"`
	CallID string `json:"tool_use_id"`
}

type claudeServer struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

type claudeMessage struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Content blocks       `json:"content"`
	Usage   *claudeUsage `json:"usage"`
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

func (r *claudeReader) read(line []byte) {
	var l claudeLine
	decode(line, &l)
	r.m.session(l.Session)
	switch l.Type {
	case "system":
		r.system(&l)
	case "assistant":
		var message claudeMessage
		if decode(l.Message, &message) {
			r.assistant(l.Parent, &message)
		}
	case "user":
		var message claudeMessage
		if decode(l.Message, &message) {
			r.results(message.Content)
		}
	case "result":
		r.end(&l)
	}
}

func (r *claudeReader) system(l *claudeLine) {
	switch l.Subtype {
	case "init":
		r.servers = []string{ServerName}
		status := "absent"
		for _, s := range l.MCP {
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
		var why string
		decode(l.Message, &why)
		r.m.denied(l.CallID, l.Tool, nil, why)
		r.m.other(tipstaff.WorkerDenied)
	}
}

func (r *claudeReader) assistant(parent string, message *claudeMessage) {
	r.m.message(parent, message.ID, message.Model)
	if message.Usage != nil {
		r.m.using(parent, message.Usage.usage())
	}
	for _, b := range message.Content {
		switch b.Type {
		case "text":
			r.m.say(parent, b.Text)
		case "tool_use", "server_tool_use":
			server, tool := claude.resolve(b.Name, r.servers)
			r.m.call(toolCall{parent: parent, id: b.ID, name: b.Name, server: server, tool: tool, args: b.Input})
		case "thinking", "redacted_thinking":
			r.m.other(tipstaff.WorkerThinking)
		default:
			r.m.other(tipstaff.WorkerUnknown)
		}
	}
}

func (r *claudeReader) results(content blocks) {
	for _, b := range content {
		if b.Type == "tool_result" {
			r.m.result(b.CallID, b.Content.text(), b.IsError, "")
		} else {
			r.m.other(tipstaff.WorkerUnknown)
		}
	}
}

func (r *claudeReader) end(l *claudeLine) {
	for _, d := range l.Denials {
		r.m.denied(d.ID, d.Tool, d.Input, "")
	}
	e := ending{isError: l.IsError, text: l.Result, msg: tipstaff.Joined("; ", l.Errors...), reason: claudeReason(l.StopReason)}
	if l.IsError && e.msg == "" {
		e.msg = tipstaff.Joined(": ", l.Subtype, l.Result)
	}
	if l.Subtype == "error_max_budget_usd" {
		e.limit = limitCost
	}
	if l.Usage != nil {
		u := l.Usage.usage()
		e.usage = &u
	}
	if cost, ok := dollars(l.Cost); ok {
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
