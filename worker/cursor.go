package worker

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Cursor, as its vendor documents it.
var cursor = cliType{
	name: "cursor", command: "cursor-agent", install: "see https://cursor.com/cli",
	passed: []string{"CURSOR_API_KEY"},
	edits:  map[string]string{"delete": "", "edit": "", "write": ""}, execs: []string{"shell"},
	reservedFlags: []string{"-p", "--print", "--output-format", "--stream-partial-output", "--trust", "-f", "--force", "--yolo", "--sandbox", "--approve-mcps", "-m", "--model",
		"--resume", "--continue", "--mode", "--plan", "--workspace", "-w", "--worktree", "--worktree-base", "-b", "--background", "-c", "--cloud", "--fullscreen", "--auto-review", "--skip-worktree-setup", "--add-dir",
		"--plugin-dir", "--list-models", "-a", "--api-key", "-H", "--header", "-h", "--help", "-v", "--version"},
	sets: []string{"CURSOR_CONFIG_DIR"},
	stance: func(p Posture, v verdicts) stance {
		switch p {
		case ReadOnly:
			return stance{may: map[string]bool{}}
		case Write:
			return stance{flags: []string{"--force", "--sandbox", "enabled"}, open: []string{edits, execs}}
		case Bypass:
			return stance{flags: []string{"--force", "--sandbox", "disabled"}, open: []string{edits, execs}}
		}
		return stance{may: v.allowed(), cannot: v.mixed(edits)} // one permission
	},
	prepare: cursorPrepare,
	reader:  func(m *mapper) reader { return &cursorReader{m: m} },
	signs: []sign{
		{SessionLost, onResume, 1, regexp.MustCompile(`(?i)\bchat \S+ not found`)},
	},
}

// cursorPrepare writes the permissions into a configuration of its own, and the channel
// into the working directory, for the CLI reads it from no other place.
func cursorPrepare(l *launch) error {
	config := object{}
	if home := l.getenv("HOME"); l.pick("none", "user") == "user" && home != "" {
		if b, err := os.ReadFile(filepath.Join(home, ".cursor", "cli-config.json")); err == nil {
			decode(b, &config)
		}
	}
	allow, deny := []string{"Mcp(" + ServerName + ":*)", "Read(**)"}, []string{}
	for _, rule := range []struct{ permission, tool string }{{"Write(**)", "write"}, {"Shell(**)", "shell"}} {
		switch {
		case l.stance.may == nil:
		case l.stance.may[rule.tool]:
			allow = append(allow, rule.permission)
		default:
			deny = append(deny, rule.permission)
		}
	}
	config["version"] = 1
	if config["editor"] == nil {
		config["editor"] = object{"vimMode": false}
	}
	config["permissions"] = object{"allow": allow, "deny": deny}
	if _, err := l.write("cursor/cli-config.json", config); err != nil {
		return err
	}
	l.setenv("CURSOR_CONFIG_DIR", filepath.Join(l.o.Folder, "cursor"))

	env := map[string]string{}
	for _, name := range l.channelEnv() {
		env[name] = "${env:" + name + "}"
	}
	folder := filepath.Join(l.o.Dir, ".cursor")
	made := os.Mkdir(folder, 0o755)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	file := filepath.Join(folder, "mcp.json")
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	l.cleanup = append(l.cleanup, func() {
		_ = os.Remove(file)
		if made == nil {
			_ = os.Remove(folder) // unless the worker put something into it
		}
	})
	_, err = out.Write(flow.JSON(object{"mcpServers": object{ServerName: object{"command": l.self, "args": []string{"worker-mcp"}, "env": env}}}))
	return errors.Join(err, out.Close(), excludeFromGit(l.o.Dir, "/.cursor/mcp.json"))
}

// cursorDirectory refuses a directory that has a configuration of its own: ours would
// replace it.
func cursorDirectory(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, ".cursor", "mcp.json")); err == nil {
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "%s has a file .cursor/mcp.json, where the channel of a cursor worker must be", dir).
			WithHint("use another worker, or remove the file from the working tree")
	}
	return nil
}

// excludeFromGit lists a path in info/exclude of the repository that dir belongs to, so
// that it is in no commit. Without a repository there is nothing to do.
func excludeFromGit(dir, pattern string) error {
	git := filepath.Join(dir, ".git")
	if b, err := os.ReadFile(git); err == nil { // of a worktree: where its own files are
		to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
		if !ok {
			return nil
		}
		if git = to; !filepath.IsAbs(git) {
			git = filepath.Join(dir, to)
		}
		if b, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
			common := strings.TrimSpace(string(b))
			if !filepath.IsAbs(common) {
				common = filepath.Join(git, common)
			}
			git = common
		}
	}
	if info, err := os.Stat(git); err != nil || !info.IsDir() {
		return nil
	}
	file := filepath.Join(git, "info", "exclude")
	listed, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.Contains(strings.Split(string(listed), "\n"), pattern) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if len(listed) > 0 && listed[len(listed)-1] != '\n' {
		pattern = "\n" + pattern
	}
	_, err = out.WriteString(pattern + "\n")
	return errors.Join(err, out.Close())
}

type cursorReader struct{ m *mapper }

type cursorLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`
	Message struct {
		Content blocks `json:"content"`
	} `json:"message"`
	CallID  string                     `json:"call_id"`
	Call    map[string]json.RawMessage `json:"tool_call"`
	IsError bool                       `json:"is_error"`
	Result  string                     `json:"result"`
	Usage   *struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadTokens"`
		CacheWrite int64 `json:"cacheWriteTokens"`
	} `json:"usage"`
}

func (r *cursorReader) read(line []byte) bool {
	var l cursorLine
	if !decode(line, &l) {
		return false
	}
	r.m.session(l.Session)
	switch l.Type {
	case "system":
		r.m.model = l.Model
		r.m.other(tipstaff.WorkerInit)
	case "assistant":
		r.m.begin("", "", r.m.model)
		r.m.say("", l.Message.Content.text())
	case "thinking":
		r.m.other(tipstaff.WorkerThinking)
	case "tool_call":
		r.call(&l)
	case "result":
		e := ending{isError: l.IsError, text: l.Result}
		if l.IsError {
			e.msg = l.Result
		}
		if u := l.Usage; u != nil {
			usage := summed(tipstaff.ModelUsage{InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite})
			e.usage = &usage
		}
		r.m.end(e)
	}
	return true
}

func (r *cursorReader) call(l *cursorLine) {
	for _, key := range slices.Sorted(maps.Keys(l.Call)) {
		name, ok := strings.CutSuffix(key, "ToolCall")
		if !ok && key != "function" {
			continue
		}
		var body struct {
			Args   json.RawMessage            `json:"args"`
			Result map[string]json.RawMessage `json:"result"`
			Name   string                     `json:"name"`      // of function
			Text   string                     `json:"arguments"` // of function
		}
		decode(l.Call[key], &body)
		c := toolCall{id: l.CallID, name: name, server: nativeServer("cursor"), tool: name, args: body.Args}
		switch key {
		case "function":
			c.name, c.tool, c.args = body.Name, body.Name, json.RawMessage(body.Text)
		case "mcpToolCall":
			var mcp struct {
				Server string          `json:"providerIdentifier"`
				Tool   string          `json:"toolName"`
				Args   json.RawMessage `json:"args"`
			}
			decode(body.Args, &mcp)
			if mcp.Server != "" && mcp.Tool != "" {
				c.name, c.server, c.tool, c.args = mcp.Server+"/"+mcp.Tool, mcp.Server, mcp.Tool, mcp.Args
			}
		}
		if !json.Valid(c.args) {
			c.args = nil
		}
		if r.m.asked[l.CallID] == nil {
			r.m.call(c)
		}
		if l.Subtype == "completed" {
			content, failed := cursorResult(body.Result)
			r.m.result(l.CallID, content, failed, "")
		}
		return
	}
}

// cursorResult is what a call brought: one member, success or what went wrong.
func cursorResult(result map[string]json.RawMessage) (content string, failed bool) {
	if s, ok := result["success"]; ok {
		return string(s), false
	}
	for _, key := range slices.Sorted(maps.Keys(result)) {
		return key + ": " + string(result[key]), true
	}
	return "", false
}
