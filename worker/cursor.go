package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

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
	obeys:   cursorObeys,
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
	if home := l.getenv("HOME"); l.user && home != "" {
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

	folder := filepath.Join(l.o.Dir, ".cursor")
	file := filepath.Join(l.o.Dir, PrivateFile)
	if cursorLeft(file) {
		_ = errors.Join(os.Remove(file), os.Remove(folder)) // the folder unless there is something else
	}
	made := os.Mkdir(folder, 0o755)
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return tipstaff.Errorf(tipstaff.WorkerDirectory, "the channel of a cursor worker must be in a file of the working tree: %v", err).
			WithHint("use another worker, or remove .cursor/mcp.json from the working tree")
	}
	l.cleanup = append(l.cleanup, func() {
		_ = os.Remove(file)
		if made == nil {
			_ = os.Remove(folder) // unless the worker put something into it
		}
		_ = out.Close()
	})
	if err := syscall.Flock(int(out.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	_, err = out.Write(cursorChannel(l.self))
	return errors.Join(err, excludeFromGit(l.o.Dir, PrivateFile))
}

// cursorChannel is the channel as the CLI reads it: a server that it starts.
func cursorChannel(self string) []byte {
	env := map[string]string{}
	for _, name := range channelEnv() {
		env[name] = "${env:" + name + "}"
	}
	return flow.JSON(object{"mcpServers": object{ServerName: object{"command": self, "args": []string{"worker-mcp"}, "env": env}}})
}

// cursorLeft reports whether a file is the channel of a worker that could not clean up: what
// we write, wherever Tipstaff lay then, and locked by nobody who still works.
func cursorLeft(file string) bool {
	f, err := openPlain(file, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	var c struct {
		Servers map[string]struct {
			Command string `json:"command"`
		} `json:"mcpServers"`
	}
	b, err := readPlain(f)
	return err == nil && decode(b, &c) && bytes.Equal(b, cursorChannel(c.Servers[ServerName].Command)) &&
		syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// PrivateFile is the pattern of a file that is ours in the directory of a worker, for as long
// as it works. git is told to ignore it.
const PrivateFile = "/.cursor/mcp.json"

// cursorObeys is all of .cursor but rules, which are texts for the model, and the settings of
// Claude Code, whose hooks it runs.
func cursorObeys(o *Options) ([]string, error) {
	found := present(o, ".claude/settings.json", ".claude/settings.local.json")
	for _, d := range tree(o) {
		entries, err := os.ReadDir(filepath.Join(d, ".cursor"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		for _, e := range entries {
			file := filepath.Join(d, ".cursor", e.Name())
			if e.Name() != "rules" && (file != filepath.Join(o.Dir, PrivateFile) || !cursorLeft(file)) {
				found = append(found, file)
			}
		}
	}
	return found, nil
}

// excludeFromGit lists a path in info/exclude of the repository that dir belongs to, so
// that it is in no commit. Without a repository there is nothing to do.
func excludeFromGit(dir, pattern string) error {
	git := filepath.Join(dir, ".git")
	to, ok := plainLine(git)
	if to, is := strings.CutPrefix(to, "gitdir: "); is { // of a worktree: where its own files are
		git = from(dir, to)
		if common, ok := plainLine(filepath.Join(git, "commondir")); ok {
			git = from(git, common)
		}
	} else if ok {
		return nil
	}
	if info, err := os.Stat(git); err != nil || !info.IsDir() {
		return nil
	}
	file := filepath.Join(git, "info", "exclude")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := openPlain(file, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	listed, err := readPlain(f)
	if err == nil && !slices.Contains(strings.Split(string(listed), "\n"), pattern) {
		if len(listed) > 0 && listed[len(listed)-1] != '\n' {
			pattern = "\n" + pattern
		}
		_, err = f.WriteString(pattern + "\n")
	}
	return errors.Join(err, f.Close())
}

// from is a path as it is meant in a directory.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// plainLine is what a plain file holds that names one thing.
func plainLine(file string) (text string, ok bool) {
	f, err := openPlain(file, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := readPlain(f)
	return strings.TrimSpace(string(b)), err == nil
}

// mostPlain is the size of a file that is read whole. Whoever can write to the tree or to its
// repository can put anything there.
const mostPlain = 1 << 20

// openPlain opens a file that may be anything: no link is followed, and nobody waits at a pipe.
func openPlain(file string, flags int) (*os.File, error) {
	f, err := os.OpenFile(file, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s is no plain file", file))
	}
	return f, nil
}

func readPlain(f *os.File) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, mostPlain+1))
	if len(b) > mostPlain {
		return nil, fmt.Errorf("%s has more than %d bytes", f.Name(), mostPlain)
	}
	return b, err
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
