//go:build linux

package clis

import "os"

type claude struct{}

func (claude) name() string { return "claude" }

// taskTools are allowed in every posture but bypass.
const taskTools = "mcp__tipstaff__task_status,mcp__tipstaff__task_set_status,mcp__tipstaff__task_log,mcp__tipstaff__task_ask,mcp__tipstaff__task_output"

func (c claude) args(b *bench, p posture) []string {
	config := b.file("mcp.json", quoted(map[string]any{"mcpServers": map[string]any{"tipstaff": map[string]any{
		"type": "stdio", "command": os.Args[0], "args": []string{channelCommand},
		"env": map[string]string{"TIPSTAFF_MCP_SOCKET": "${TIPSTAFF_MCP_SOCKET}", "TIPSTAFF_MCP_TOKEN": approver},
	}}}))
	hook := []string{"--permission-prompt-tool", "mcp__tipstaff__approve", "--allowedTools", taskTools}
	args := []string{"-p", "--verbose", "--output-format", "stream-json"}
	switch p {
	case auto:
		args = append(append(args, "--permission-mode", "default"), hook...)
	case readOnly:
		args = append(args, "--permission-mode", "dontAsk", "--disallowedTools", "Edit,Write,NotebookEdit", "--allowedTools", taskTools)
	case write:
		args = append(append(args, "--permission-mode", "acceptEdits"), hook...)
	case bypass:
		args = append(args, "--dangerously-skip-permissions")
	}
	return append(args, "--setting-sources", "", "--mcp-config", config, "--strict-mcp-config")
}

func (c claude) spawn(b *bench, p posture, id string) []string {
	return append(c.args(b, p), "--session-id", id)
}

func (c claude) resume(b *bench, p posture, id string) []string {
	return append(c.args(b, p), "--resume", id)
}

func (claude) env(b *bench, p posture) []string {
	env := []string{"ANTHROPIC_BASE_URL=" + b.api.URL, "ANTHROPIC_API_KEY=x", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=3"}
	if p == bypass {
		env = append(env, "IS_SANDBOX=1")
	}
	return env
}

func (claude) session(line map[string]any) string {
	if line["type"] == "system" && line["subtype"] == "init" {
		id, _ := line["session_id"].(string)
		return id
	}
	return ""
}

func (claude) worker(*workspace) map[string]any {
	return map[string]any{"env": map[string]string{"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2"}}
}

func (claude) passed(w *workspace) []string {
	return []string{"ANTHROPIC_BASE_URL=" + w.api.URL, "ANTHROPIC_API_KEY=x"}
}

func (claude) sessions() string { return ".claude/projects" }
