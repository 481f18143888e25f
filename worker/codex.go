package worker

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Codex.
var codex = cliType{
	name: "codex", command: "codex", install: "npm install -g @openai/codex",
	passed: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME"},
	edits:  map[string]string{"file_change": ""}, execs: []string{"command_execution"}, nets: []string{"web_search"},
	cumulative: counted{usage: true},
	sessionID:  uuid, // of anything else it makes a new thread
	reservedFlags: []string{"--json", "--experimental-json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules", "-s", "--sandbox", "--full-auto", "-a",
		"--ask-for-approval", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "--yolo", "-m", "--model", "-p", "--profile", "--profile-v2",
		"-C", "--cd", "--add-dir", "--ephemeral", "--last", "--all", "-o", "--output-last-message", "--output-schema", "--color", "--oss", "--local-provider", "--search",
		"--enable", "--disable", "--remote", "--remote-auth-token-env", "--strict-config", "-h", "--help", "-V", "--version"},
	shortValues: "ci",
	checkValue: func(flag, value string) bool { // -c may say where models are, and nothing else
		if flag != "-c" && flag != "--config" && !(len(flag) > 2 && strings.HasPrefix("--config", flag)) {
			return true
		}
		key, _, _ := strings.Cut(strings.TrimLeft(value, " \t"), "=")
		key = strings.TrimSpace(key)
		return key == "model_provider" || key == "openai_base_url" || strings.HasPrefix(key, "model_providers.")
	},
	stance: func(p Posture, v verdicts) stance {
		sandbox := func(mode string, network bool) []string {
			flags := []string{"-c", tomlSet("sandbox_mode", mode)}
			if mode == "workspace-write" {
				flags = append(flags, "-c", "sandbox_workspace_write.network_access="+strconv.FormatBool(network))
			}
			if !network {
				flags = append(flags, "-c", tomlSet("web_search", "disabled"))
			}
			return flags
		}
		switch p {
		case ReadOnly:
			return stance{flags: sandbox("read-only", false), open: []string{execs}}
		case Write:
			return stance{flags: sandbox("workspace-write", false), open: []string{edits, execs}}
		case Bypass:
			return stance{flags: []string{"--dangerously-bypass-approvals-and-sandbox"}, open: []string{edits, execs, nets}}
		}
		s := stance{flags: sandbox("workspace-write", v.of(nets) == Allow)}
		if v.of(edits) == Deny {
			s.flags = sandbox("read-only", v.of(nets) == Allow)
		}
		if v.of(execs) == Deny {
			s.cannot = []string{ruleText(nativeTool{"command_execution", execs}, v.rulings["command_execution"])}
		}
		return s
	},
	prepare: func(l *launch) error {
		if l.pick("none", "user") == "none" {
			l.set("settings", "--ignore-user-config", "--ignore-rules")
		}
		const server = "mcp_servers." + ServerName + "."
		l.set("channel",
			"-c", tomlSet("approval_policy", "never"),
			"-c", tomlSet(server+"command", l.self),
			"-c", server+`args=["worker-mcp"]`,
			"-c", server+"required=true",
			"-c", tomlSet(server+"default_tools_approval_mode", "approve"),
			"-c", server+"env_vars="+tomlList(channelEnv()))
		return nil
	},
	reader: func(m *mapper) reader { return &codexReader{m: m} },
	signs: []sign{
		{ChannelFailed, nil, 0, regexp.MustCompile(`(?i)required MCP servers? failed`)},
		{SessionConflict, onResume, 1, regexp.MustCompile(`(?i)already has an active writer`)},
		{SessionLost, onResume, 1, regexp.MustCompile(`(?i)no rollout found for thread id`)},
	},
}

// tomlSet is a key of Codex's configuration and its text.
func tomlSet(key, value string) string { return key + "=" + tomlText(value) }

// tomlText is a basic string of TOML: JSON's escapes are among its own.
func tomlText(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func tomlList(list []string) string {
	var quoted []string
	for _, s := range list {
		quoted = append(quoted, tomlText(s))
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

type codexReader struct{ m *mapper }

type codexLine struct {
	Type   string     `json:"type"`
	Thread string     `json:"thread_id"`
	Item   *codexItem `json:"item"`
	Usage  *struct {
		Input      int64 `json:"input_tokens"`
		Cached     int64 `json:"cached_input_tokens"`
		CacheWrite int64 `json:"cache_write_input_tokens"`
		Output     int64 `json:"output_tokens"`
		Reasoning  int64 `json:"reasoning_output_tokens"`
	} `json:"usage"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Status  string `json:"status"`
	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Exit    *int   `json:"exit_code"`

	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    *struct {
		Content    blocks          `json:"content"`
		Structured json.RawMessage `json:"structured_content"`
		IsError    bool            `json:"is_error"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`

	Changes json.RawMessage `json:"changes"`
	Query   string          `json:"query"`
}

func (r *codexReader) read(line []byte) bool {
	var l codexLine
	if !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "thread.started":
		r.m.session(l.Thread)
		r.m.other(tipstaff.WorkerInit)
	case "turn.started":
		r.m.resumed()
		r.m.other(tipstaff.WorkerInit)
	case "item.started", "item.completed":
		if l.Item != nil {
			r.item(l.Item, l.Type == "item.completed")
		}
	case "turn.completed":
		e := ending{}
		if u := l.Usage; u != nil {
			usage := summed(tipstaff.ModelUsage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite,
				ReasoningTokens: u.Reasoning})
			e.usage = &usage
		}
		r.m.end(e)
	case "turn.failed":
		r.m.end(ending{isError: true, msg: l.Error.Message})
	case "error": // it goes on, or turn.failed follows
		if strings.Contains(strings.ToLower(l.Message), "reconnecting") {
			r.m.other(tipstaff.WorkerRetry)
		} else {
			r.m.other(tipstaff.WorkerWarning)
		}
	}
	return true
}

func (r *codexReader) item(i *codexItem, completed bool) {
	switch i.Type {
	case "agent_message":
		if completed {
			r.m.message("", i.ID, "")
			r.m.say("", i.Text)
		}
	case "reasoning":
		r.m.other(tipstaff.WorkerThinking)
	case "error":
		r.m.other(tipstaff.WorkerWarning)
	case "command_execution", "mcp_tool_call", "file_change", "web_search":
		c, content, failed := i.call()
		if r.m.asked[i.ID] == nil { // a missing start is supplied
			r.m.call(c)
		}
		if completed {
			r.m.result(i.ID, content, failed, i.class())
		}
	}
}

func (i *codexItem) class() string {
	if i.Status == "declined" {
		return denied
	}
	return ""
}

// call is the call that an item stands for, and what it brought.
func (i *codexItem) call() (c toolCall, content string, failed bool) {
	c = toolCall{id: i.ID, name: i.Type, server: nativeServer("codex"), tool: i.Type}
	failed = i.Status == "failed" || i.Status == "declined"
	switch i.Type {
	case "command_execution":
		c.args = flow.JSON(object{"command": i.Command})
		content, failed = i.Output, failed || i.Exit != nil && *i.Exit != 0
		if i.Exit != nil && *i.Exit != 0 {
			content += fmt.Sprintf("\nexit code %d", *i.Exit)
		}
	case "mcp_tool_call":
		c.name, c.server, c.tool, c.args = i.Server+"/"+i.Tool, i.Server, i.Tool, i.Arguments
		if i.Result != nil {
			content, failed = i.Result.Content.text(), failed || i.Result.IsError
			if content == "" {
				content = string(i.Result.Structured)
			}
		}
		if i.Error != nil {
			content, failed = i.Error.Message, true
		}
	case "file_change":
		c.args = flow.JSON(object{"changes": orNull(i.Changes)})
		content = i.Status
	case "web_search":
		c.args = flow.JSON(object{"query": i.Query})
	}
	return c, content, failed
}
