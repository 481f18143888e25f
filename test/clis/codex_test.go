//go:build linux

package clis

import "os"

type codex struct{}

func (codex) name() string { return "codex" }

func (c codex) args(b *bench, p posture) []string {
	args := []string{"--json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"}
	switch p {
	case auto, write:
		args = append(args, "-c", `sandbox_mode="workspace-write"`)
	case readOnly:
		args = append(args, "-c", `sandbox_mode="read-only"`)
	case bypass:
		args = append(args, "--dangerously-bypass-approvals-and-sandbox")
	}
	args = append(args,
		"-c", `approval_policy="never"`,
		"-c", "mcp_servers.tipstaff.command="+quoted(os.Args[0]),
		"-c", "mcp_servers.tipstaff.args="+quoted([]string{channelCommand}),
		"-c", "mcp_servers.tipstaff.required=true",
		"-c", `mcp_servers.tipstaff.default_tools_approval_mode="approve"`,
		"-c", `mcp_servers.tipstaff.env_vars=["TIPSTAFF_MCP_SOCKET","TIPSTAFF_MCP_TOKEN","TIPSTAFF_RUN_ID","TIPSTAFF_LAUNCH","TIPSTAFF_SPAWN"]`,
	)
	return append(append(args, c.provider(b.api.URL)...), "-m", "scripted")
}

func (c codex) spawn(b *bench, p posture, _ string) []string {
	return append(append([]string{"exec"}, c.args(b, p)...), "-")
}

func (c codex) resume(b *bench, p posture, id string) []string {
	return append(append([]string{"exec", "resume"}, c.args(b, p)...), id, "-")
}

func (codex) env(b *bench, _ posture) []string { return []string{"OPENAI_API_KEY=x"} }

func (codex) session(line map[string]any) string {
	if line["type"] == "thread.started" {
		id, _ := line["thread_id"].(string)
		return id
	}
	return ""
}

// provider is a user's own, that is the loopback API.
func (codex) provider(url string) []string {
	return []string{
		"-c", `model_provider="loopback"`,
		"-c", `model_providers.loopback={name="loopback",base_url=` + quoted(url+"/v1") + `,env_key="OPENAI_API_KEY",wire_api="responses",request_max_retries=3,stream_max_retries=3}`,
	}
}

func (c codex) worker(w *workspace) map[string]any {
	return map[string]any{"model": "scripted", "args": c.provider(w.api.URL)}
}

func (codex) passed(*workspace) []string { return []string{"OPENAI_API_KEY=x"} }

func (codex) sessions() string { return ".codex" }
