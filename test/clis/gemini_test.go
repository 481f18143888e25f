//go:build linux

package clis

import "os"

type gemini struct{}

func (gemini) name() string { return "gemini" }

func (gemini) args(b *bench, p posture) []string {
	b.file("private/.gemini/settings.json", quoted(map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"mcpServers": map[string]any{"tipstaff": map[string]any{
			"command": os.Args[0], "args": []string{channelCommand}, "trust": true,
			"env": map[string]string{"TIPSTAFF_MCP_SOCKET": "$TIPSTAFF_MCP_SOCKET", "TIPSTAFF_MCP_TOKEN": "$TIPSTAFF_MCP_TOKEN", "TIPSTAFF_RUN_ID": "$TIPSTAFF_RUN_ID", "TIPSTAFF_LAUNCH": "$TIPSTAFF_LAUNCH", "TIPSTAFF_SPAWN": "$TIPSTAFF_SPAWN"},
		}},
	}))
	args := []string{"-o", "stream-json", "--skip-trust"}
	switch p {
	case auto:
		args = append(args, "--approval-mode", "default", "--policy", b.file("policy.toml", compiled("allow", "write_file", "replace")+compiled("deny", "run_shell_command", "web_fetch", "google_web_search")))
	case readOnly:
		args = append(args, "--approval-mode", "default", "--policy", b.file("policy.toml", compiled("deny", "write_file", "replace", "run_shell_command", "web_fetch", "google_web_search")))
	case write:
		args = append(args, "--approval-mode", "auto_edit")
	case bypass:
		args = append(args, "--approval-mode", "yolo")
	}
	return append(args, "-m", "gemini-2.5-flash")
}

// compiled is a policy file's rules for tools.
func compiled(decision string, tools ...string) (text string) {
	for _, tool := range tools {
		text += "[[rule]]\ntoolName = " + quoted(tool) + "\ndecision = " + quoted(decision) + "\npriority = 500\n\n"
	}
	return text
}

func (g gemini) spawn(b *bench, p posture, id string) []string {
	return append(g.args(b, p), "--session-id", id)
}

func (g gemini) resume(b *bench, p posture, id string) []string {
	return append(g.args(b, p), "--resume", id)
}

func (gemini) env(b *bench, _ posture) []string {
	return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + b.api.URL, "GEMINI_CLI_HOME=" + b.root + "/private"}
}

func (gemini) session(line map[string]any) string {
	if line["type"] == "init" {
		id, _ := line["session_id"].(string)
		return id
	}
	return ""
}

func (gemini) worker(w *workspace) map[string]any {
	w.Write(".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`) // the user's
	return map[string]any{"model": "gemini-2.5-flash"}
}

func (gemini) passed(w *workspace) []string {
	return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + w.api.URL}
}

func (gemini) sessions() string { return "repo/.tipstaff/runs/*/workers/*/.gemini/tmp" }
