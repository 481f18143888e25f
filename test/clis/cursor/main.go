// Command cursor stands in for cursor-agent, which cannot be installed from a registry and
// needs an account. It follows what the vendor documents: create-chat prints an id, print
// mode reads the prompt from standard input, events are lines of JSON, a folder is trusted
// with --trust alone, and without it the answer is prose and the exit code 0.
//
// The prompt is its script. Of each line that begins with a verb it does what that says:
//
//	say TEXT                an assistant's message
//	write FILE TEXT         a file below the working directory
//	run COMMAND             a command
//	mcp SERVER TOOL JSON    a call of a tool of .cursor/mcp.json
//	fail TEXT               the end, as an error
//	exit N                  the end of the process, without any event
//	hang                    nothing more
//
// Writing and running need --force, and that the permissions of cli-config.json in
// CURSOR_CONFIG_DIR do not deny it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const version = "2026.08.28-standin"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// agent is one run in print mode.
type agent struct {
	force, trust, mcps bool
	chat, model        string
	calls              int
	servers            map[string]*mcp.ClientSession
	out                *json.Encoder
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "create-chat" {
		return createChat()
	}
	a := &agent{servers: map[string]*mcp.ClientSession{}, out: json.NewEncoder(os.Stdout)}
	a.out.SetEscapeHTML(false)
	flags := flag.NewFlagSet("cursor-agent", flag.ContinueOnError)
	flags.SetOutput(os.Stdout)
	printed := flags.Bool("p", false, "print the answer, and read the prompt from standard input")
	format := flags.String("output-format", "text", "text, json or stream-json; with -p")
	showVersion := flags.Bool("version", false, "show the version")
	flags.BoolVar(&a.force, "force", false, "allow commands unless they are denied")
	flags.BoolVar(&a.trust, "trust", false, "trust the workspace; with -p")
	flags.BoolVar(&a.mcps, "approve-mcps", false, "approve all MCP servers")
	flags.StringVar(&a.chat, "resume", "", "the chat to go on with")
	flags.StringVar(&a.model, "model", "auto", "the model")
	sandbox := flags.String("sandbox", "", "enabled or disabled")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *showVersion:
		fmt.Println(version)
		return nil
	case !*printed || *format != "stream-json":
		return errors.New("the stand-in has print mode with stream-json alone")
	case !slices.Contains([]string{"", "enabled", "disabled"}, *sandbox):
		return fmt.Errorf("--sandbox %s: enabled or disabled", *sandbox)
	}
	if !a.trust {
		dir, _ := os.Getwd()
		fmt.Printf("Workspace Trust Required\n\nCursor Agent can execute code and access files in this directory: %s\n\nPass --trust if you trust it.\n", dir)
		return nil
	}
	prompt, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return a.answer(string(prompt))
}

// chats is where the stand-in keeps what was said.
func chats() string {
	if dir := os.Getenv("CURSOR_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "chats")
	}
	return filepath.Join(os.Getenv("HOME"), ".cursor", "chats")
}

func createChat() error {
	if err := os.MkdirAll(chats(), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(chats(), "")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(filepath.Base(f.Name()), 10, 64)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("c4a70000-0000-4000-8000-%012x", n)
	if err := os.Rename(f.Name(), filepath.Join(chats(), id)); err != nil {
		return err
	}
	fmt.Println(id)
	return f.Close()
}

// remember adds the prompt to the chat, and says how many it has.
func (a *agent) remember(prompt string) (int, error) {
	file := filepath.Join(chats(), a.chat)
	said, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("chat %s not found", a.chat)
	}
	line, _ := json.Marshal(prompt)
	said = append(append(said, line...), '\n')
	return strings.Count(string(said), "\n"), os.WriteFile(file, said, 0o600)
}

type object = map[string]any

func (a *agent) event(fields object) {
	fields["session_id"] = a.chat
	a.out.Encode(fields) // a reader who has gone away is not told
}

func message(role, text string) object {
	return object{"type": role, "message": object{"role": role, "content": []object{{"type": "text", "text": text}}}}
}

func (a *agent) answer(prompt string) error {
	prompts, err := a.remember(prompt)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := a.connect(); err != nil {
		return err
	}
	defer func() {
		for _, session := range a.servers {
			session.Close()
		}
	}()
	a.event(object{"type": "system", "subtype": "init", "apiKeySource": "env", "cwd": dir, "model": a.model, "permissionMode": "default"})
	a.event(message("user", prompt))
	text := fmt.Sprintf("prompt %d of this chat", prompts)
	for line := range strings.Lines(prompt) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "say":
			text = rest
			a.event(message("assistant", text))
		case "write":
			a.write(dir, rest)
		case "run":
			a.shell(rest)
		case "mcp":
			a.mcp(rest)
		case "fail":
			a.event(object{"type": "result", "subtype": "error", "is_error": true, "duration_ms": 1, "duration_api_ms": 1, "result": rest})
			os.Exit(1)
		case "exit":
			code, _ := strconv.Atoi(rest)
			os.Exit(code)
		case "hang":
			select {}
		}
	}
	a.event(object{"type": "result", "subtype": "success", "is_error": false, "duration_ms": 1, "duration_api_ms": 1, "result": text})
	return nil
}

// call shows a call of a tool, makes it, and shows what came of it.
func (a *agent) call(tool string, args, more object, do func() (object, error)) {
	a.calls++
	id := fmt.Sprintf("tool_%d", a.calls)
	body := object{"args": args}
	for k, v := range more {
		args[k] = v
	}
	a.event(object{"type": "tool_call", "subtype": "started", "call_id": id, "tool_call": object{tool: body}})
	result := object{}
	if success, err := do(); err != nil {
		result["error"] = object{"errorMessage": err.Error()}
	} else {
		result["success"] = success
	}
	a.event(object{"type": "tool_call", "subtype": "completed", "call_id": id, "tool_call": object{tool: object{"args": args, "result": result}}})
}

// may says whether a kind of tool, Write or Shell, is allowed.
func (a *agent) may(kind string) error {
	var config struct {
		Permissions struct{ Deny []string }
	}
	text, err := os.ReadFile(filepath.Join(os.Getenv("CURSOR_CONFIG_DIR"), "cli-config.json"))
	if err == nil {
		if err := json.Unmarshal(text, &config); err != nil {
			return err
		}
	}
	for _, rule := range config.Permissions.Deny {
		if strings.HasPrefix(rule, kind+"(") {
			return fmt.Errorf("%s is denied by %s", kind, rule)
		}
	}
	if !a.force {
		return fmt.Errorf("%s needs an approval, and nobody is there to give it", kind)
	}
	return nil
}

func (a *agent) write(dir, rest string) {
	name, text, _ := strings.Cut(rest, " ")
	a.call("writeToolCall", object{"path": name, "fileText": text}, nil, func() (object, error) {
		if err := a.may("Write"); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, name)
		return object{"path": path, "linesCreated": 1, "fileSize": len(text)}, os.WriteFile(path, []byte(text), 0o644)
	})
}

func (a *agent) shell(command string) {
	a.call("shellToolCall", object{"command": command}, nil, func() (object, error) {
		if err := a.may("Shell"); err != nil {
			return nil, err
		}
		c := exec.Command("bash", "-c", command)
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			return nil, err
		}
		return object{"command": command, "exitCode": c.ProcessState.ExitCode(), "stdout": string(out)}, nil
	})
}

func (a *agent) mcp(rest string) {
	server, rest, _ := strings.Cut(rest, " ")
	tool, raw, _ := strings.Cut(rest, " ")
	args := object{}
	err := json.Unmarshal([]byte(raw), &args)
	named := object{"name": server + "-" + tool, "providerIdentifier": server, "toolName": tool}
	a.call("mcpToolCall", object{"args": args}, named, func() (object, error) {
		if err != nil {
			return nil, err
		}
		return a.callServer(server, tool, args)
	})
}

// connect starts the servers that .cursor/mcp.json has, if they are approved.
func (a *agent) connect() error {
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	text, err := os.ReadFile(filepath.Join(".cursor", "mcp.json"))
	if errors.Is(err, os.ErrNotExist) || !a.mcps {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	for name, s := range config.MCPServers {
		c := exec.Command(s.Command, s.Args...)
		c.Env = os.Environ()
		for k, v := range s.Env {
			c.Env = append(c.Env, k+"="+os.Expand(v, func(name string) string { return os.Getenv(strings.TrimPrefix(name, "env:")) }))
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "cursor", Version: version}, nil)
		if a.servers[name], err = client.Connect(context.Background(), &mcp.CommandTransport{Command: c}, nil); err != nil {
			return fmt.Errorf("MCP server %s: %w", name, err)
		}
	}
	return nil
}

func (a *agent) callServer(server, tool string, args object) (object, error) {
	session := a.servers[server]
	if session == nil {
		return nil, fmt.Errorf("no server %s is configured and approved", server)
	}
	r, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, err
	}
	content := []object{}
	for _, block := range r.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			content = append(content, object{"text": object{"text": t.Text}})
		}
	}
	return object{"content": content, "isError": r.IsError}, nil
}
