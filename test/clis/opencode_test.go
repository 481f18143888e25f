//go:build linux

package clis

import "os"

type opencode struct{}

func (opencode) name() string { return "opencode" }

func (opencode) spawn(_ *bench, _ posture, _ string) []string {
	return []string{"run", "--pure", "--format", "json", "-m", "loopback/scripted"}
}

func (o opencode) resume(b *bench, p posture, id string) []string {
	return append(o.spawn(b, p, ""), "-s", id)
}

func (o opencode) env(b *bench, p posture) []string {
	// Permissions are an ordered list: the last match counts.
	permission := `{"*":"deny","read":"allow","glob":"allow","grep":"allow","list":"allow","tipstaff_*":"allow"`
	switch p {
	case auto, write:
		permission += `,"edit":"allow","bash":"deny","webfetch":"deny"`
	case bypass:
		permission = `{"*":"allow"`
	}
	permission += "}"
	command := quoted([]string{os.Args[0], channelCommand})
	content := `{"permission":` + permission + `,"mcp":{"tipstaff":{"type":"local","enabled":true,"command":` + command +
		`,"environment":{"TIPSTAFF_MCP_SOCKET":"{env:TIPSTAFF_MCP_SOCKET}","TIPSTAFF_MCP_TOKEN":"{env:TIPSTAFF_MCP_TOKEN}"}}}}`
	config := b.file("opencode.json", o.provider(b.api.URL))
	return []string{"OPENCODE_CONFIG_CONTENT=" + content, "OPENCODE_CONFIG=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "XDG_CONFIG_HOME=" + b.root + "/private"}
}

func (opencode) session(line map[string]any) string {
	id, _ := line["sessionID"].(string)
	return id
}

// provider is a user's own, that is the loopback API.
func (opencode) provider(url string) string {
	return `{"provider":{"loopback":{"npm":"@ai-sdk/openai-compatible","name":"loopback","options":{"baseURL":` + quoted(url+"/v1") + `,"apiKey":"x"},"models":{"scripted":{"name":"scripted"}}}}}`
}

func (o opencode) worker(w *workspace) map[string]any {
	w.Write("opencode.json", o.provider(w.api.URL))
	return map[string]any{"model": "loopback/scripted", "env": map[string]string{"OPENCODE_CONFIG": w.Path("opencode.json"), "OPENCODE_DISABLE_MODELS_FETCH": "1"}}
}

func (opencode) passed(*workspace) []string { return nil }

func (opencode) sessions() string { return ".local/share/opencode" }
