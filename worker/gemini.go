package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Gemini CLI.
var gemini = cliType{
	name: "gemini", command: "gemini", install: "npm install -g @google/gemini-cli",
	passed:       []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"},
	sets:         []string{"GEMINI_CLI_HOME"},
	always:       []string{"GEMINI_CLI_NO_RELAUNCH=true"}, // else what we start is a launcher that ignores SIGTERM
	reads:        []string{"read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search"},
	edits:        map[string]string{"write_file": "file_path", "replace": "file_path"},
	execs:        []string{"run_shell_command"},
	nets:         []string{"web_fetch", "google_web_search"},
	denialsKnown: true,
	reservedFlags: []string{"-o", "--output-format", "--skip-trust", "--approval-mode", "-y", "--yolo", "--policy", "--admin-policy", "--allowed-tools", "-m", "--model",
		"--session-id", "--session-file", "-r", "--resume", "--list-sessions", "--delete-session", "-p", "--prompt", "-i", "--prompt-interactive", "-s", "--sandbox",
		"--sandbox-image", "--allowed-mcp-server-names", "-e", "--extensions", "-l", "--list-extensions", "--include-directories", "-w", "--worktree", "--experimental-acp",
		"--acp", "--raw-output", "--accept-raw-output-risk", "--fake-responses", "--record-responses", "-h", "--help", "-v", "--version", "-g", "--gemini-md"},
	stance: func(p Posture, v verdicts) stance {
		switch p {
		case ReadOnly:
			return stance{flags: []string{"--approval-mode", "default"}, may: map[string]bool{}}
		case Write:
			return stance{flags: []string{"--approval-mode", "auto_edit"}, open: []string{edits}, may: v.allowed(edits)}
		case Bypass:
			return stance{flags: []string{"--approval-mode", "yolo"}, open: []string{edits, execs, nets}}
		}
		return stance{flags: []string{"--approval-mode", "default"}, may: v.allowed()}
	},
	obeys:   geminiObeys,
	prepare: geminiPrepare,
	reader:  func(m *mapper) reader { return &geminiReader{m: m} },
	mcpTool: func(name string, servers []string) (string, string, bool) {
		if server, tool, ok := joined("mcp_", "_")(name, servers); ok {
			return server, tool, true
		}
		return joined("", "__")(name, servers)
	},
	signs: []sign{
		{SessionConflict, onSpawn, 42, regexp.MustCompile(`(?i)session id \S+ already exists`)},
		{SessionLost, onResume, 42, regexp.MustCompile(`(?i)error resuming session`)},
	},
	retries: regexp.MustCompile(`(?i)retrying with backoff|attempt \d+ failed`),
}

// geminiSettings are the settings of a user, and what they say about signing in.
func geminiSettings(home string) (settings, auth object) {
	settings, auth = object{}, object{}
	if b, err := os.ReadFile(filepath.Join(home, ".gemini", "settings.json")); err == nil {
		decode(b, &settings)
	}
	if security, ok := settings["security"].(map[string]any); ok {
		auth = merged(security["auth"], nil)
	}
	return settings, auth
}

// geminiKeyed reports whether the CLI signs in by a key. Before it signs in otherwise it checks
// whether it can, and then takes variables from files of the tree, for it must be told to trust
// the folder.
func geminiKeyed(auth object, env []string) bool {
	switch auth["selectedType"] {
	case "gemini-api-key", "vertex-ai":
		return true
	case nil, "":
		return lookup(env, "GOOGLE_GENAI_USE_GCA") != "true"
	}
	return false
}

// geminiObeys is where it takes variables from when it signs in by an account.
func geminiObeys(o *Options) ([]string, error) {
	if _, auth := geminiSettings(lookup(o.Env, "HOME")); geminiKeyed(auth, o.Env) {
		return nil, nil
	}
	return present(o, ".env", ".gemini/.env"), nil
}

// geminiPrepare gives the CLI a home of its own: it reads its settings from no other place
// that we may write.
func geminiPrepare(l *launch) error {
	home := l.o.Folder
	l.setenv("GEMINI_CLI_HOME", home)
	theirs := filepath.Join(l.getenv("HOME"), ".gemini")
	settings, auth := geminiSettings(l.getenv("HOME"))
	if !l.user {
		settings = object{"experimental": object{"enableAgents": false}} // those of the tree may name servers
		if geminiKeyed(auth, l.env) {
			auth["useExternal"] = true // else .env and .gemini/.env of the tree are read
		}
	}
	if len(auth) > 0 {
		settings["security"] = merged(settings["security"], object{"auth": auth})
	}
	env := map[string]string{}
	for _, name := range channelEnv() {
		env[name] = "$" + name
	}
	settings["mcpServers"] = object{ServerName: object{"command": l.self, "args": []string{"worker-mcp"}, "env": env, "trust": true}}
	settings["general"] = merged(settings["general"], object{"disableAutoUpdate": true, "enableAutoUpdate": false})
	if _, err := l.write(".gemini/settings.json", settings); err != nil {
		return err
	}
	for _, name := range []string{"oauth_creds.json", "google_accounts.json", "installation_id", "gemini-credentials.json"} {
		from, to := filepath.Join(theirs, name), filepath.Join(home, ".gemini", name)
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if err := os.Symlink(from, to); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if l.stance.may != nil {
		if strings.Contains(home, ",") { // it would look for two files, find none and go on without the rules
			return tipstaff.Errorf(tipstaff.WorkerDirectory, "Gemini CLI takes a path with a comma for two: it cannot be given its rules in %s", home).
				WithHint("give the workspace a path without commas")
		}
		var rules strings.Builder
		for _, n := range l.of.tools() {
			if n.does == reads {
				continue
			}
			decision := "deny"
			if l.stance.may[n.name] {
				decision = "allow"
			}
			rules.WriteString("[[rule]]\ntoolName = " + tomlText(n.name) + "\ndecision = " + tomlText(decision) + "\npriority = 999\n")
			if decision == "allow" && n.does == execs {
				rules.WriteString("allowRedirection = true\n") // else it asks about commands that write to files
			}
		}
		file, err := l.writeText("policy.toml", rules.String())
		if err != nil {
			return err
		}
		l.stance.flags = append(l.stance.flags, "--policy", file)
	}
	return nil
}

type geminiReader struct{ m *mapper }

type geminiLine struct {
	Type    string          `json:"type"`
	Session string          `json:"session_id"`
	Model   string          `json:"model"`
	Role    string          `json:"role"`
	Content blocks          `json:"content"`
	Tool    string          `json:"tool_name"`
	ID      string          `json:"tool_id"`
	Params  json.RawMessage `json:"parameters"`
	Status  string          `json:"status"`
	Output  blocks          `json:"output"`
	Error   *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
		Cached int64 `json:"cached"`
	} `json:"stats"`
}

func (r *geminiReader) read(line []byte) bool {
	var l geminiLine
	if !decode(line, &l) {
		return false
	}
	switch l.Type {
	case "init":
		r.m.session(l.Session)
		r.m.model = l.Model
		r.m.other(tipstaff.WorkerInit)
	case "message":
		if l.Role == "assistant" || l.Role == "model" {
			r.m.say("", l.Content.text())
		}
	case "tool_use":
		server, tool := gemini.resolve(l.Tool, []string{ServerName})
		r.m.call(toolCall{id: l.ID, name: l.Tool, server: server, tool: tool, args: l.Params})
	case "tool_result":
		r.result(&l)
	case "error":
		r.m.other(tipstaff.WorkerWarning)
	case "result":
		e := ending{isError: l.Status != "success"}
		if l.Error != nil {
			e.msg = tipstaff.Joined(": ", l.Error.Type, l.Error.Message)
		}
		if s := l.Stats; s != nil {
			u := summed(tipstaff.ModelUsage{InputTokens: s.Input, OutputTokens: s.Output, CacheReadTokens: s.Cached})
			e.usage = &u
		}
		r.m.end(e)
	}
	return true
}

func (r *geminiReader) result(l *geminiLine) {
	failed, class, content := l.Status != "success", "", l.Output.text()
	if l.Error != nil {
		failed = true
		if content == "" {
			content = l.Error.Message
		}
		if l.Error.Type == "policy_violation" || l.Error.Type == "tool_not_registered" {
			class = denied
			name := ""
			if a := r.m.asked[l.ID]; a != nil {
				name = a.name
			}
			r.m.denied(l.ID, name, nil, l.Error.Message)
		}
	}
	r.m.result(l.ID, content, failed, class)
}
