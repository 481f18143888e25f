package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// surface is a way to ask for something: a call of the control plane by its name.
// code is that of a refusal; an error means that nobody answered.
type surface interface {
	call(tool string, args map[string]any) (answer json.RawMessage, code string, err error)
}

// site is a daemon that is asked over HTTP.
type site struct {
	*cmdtest.Process
	addr, grpc, token string
}

// site starts a daemon. started is told of its process, which may be killed before it serves.
func (w *workspace) site(started func(*cmdtest.Process), flags ...string) (*site, error) {
	w.Helper()
	p := w.Prepare(append([]string{"serve", "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--json"}, flags...)...)
	out, err := p.Cmd.StdoutPipe()
	w.Check(err)
	p.Cmd.Stderr = &p.Err
	p.Begin()
	started(p)
	var told struct {
		Addr  string `json:"addr"`
		GRPC  string `json:"grpc_addr"`
		Token string `json:"token_file"`
	}
	if err := json.NewDecoder(out).Decode(&told); err != nil {
		return nil, err
	}
	s := &site{Process: p, addr: told.Addr, grpc: told.GRPC}
	if told.Token != "" {
		token, err := os.ReadFile(told.Token)
		w.Check(err)
		s.token = strings.TrimSpace(string(token))
	}
	return s, nil
}

// serves is a daemon that serves until the test ends.
func (w *workspace) serves(flags ...string) *site {
	w.Helper()
	s, err := w.site(func(*cmdtest.Process) {}, flags...)
	w.Check(err)
	return s
}

// as is the daemon, asked with another token.
func (s *site) as(token string) *site {
	return &site{Process: s.Process, addr: s.addr, grpc: s.grpc, token: token}
}

func (s *site) request(ctx context.Context, method, path string, body any) *http.Request {
	text, err := json.Marshal(body)
	s.Folder.Check(err)
	if body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, bytes.NewReader(text))
	s.Folder.Check(err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	return r
}

// do asks, and tells the code of a refusal.
func (s *site) do(r *http.Request) (answer json.RawMessage, code string, err error) {
	if r.Method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		return nil, "", err
	}
	if res.StatusCode < 400 {
		return answer, "", nil
	}
	return answer, codeOf(answer), nil
}

// codeOf is the code that the object of an error has, as HTTP and MCP tell it.
func codeOf(answer []byte) string {
	var problem struct{ Error struct{ Code string } }
	if json.Unmarshal(answer, &problem) != nil || problem.Error.Code == "" {
		return fmt.Sprintf("no code in %.300s", answer)
	}
	return problem.Error.Code
}

// call knows the tools that have a run start, go on, or end, and decisions.
func (s *site) call(tool string, args map[string]any) (json.RawMessage, string, error) {
	run := fmt.Sprint("/runs/", args["run_id"])
	body := map[string]any{}
	for _, name := range []string{"action", "answer", "program", "mode"} {
		if v, given := args[name]; given {
			body[name] = v
		}
	}
	path := map[string]string{"run_start": "/runs", "run_resume": run + "/resume", "run_cancel": run + "/cancel",
		"gate_decide": fmt.Sprint(run, "/gates/", args["gate_id"], "/decision")}[tool]
	r := s.request(context.Background(), "POST", path, body)
	if key, given := args["idempotency_key"]; given {
		r.Header.Set("Idempotency-Key", fmt.Sprint(key))
	}
	return s.do(r)
}

// plane is the MCP server of a workspace on standard input and output.
type plane struct {
	*cmdtest.Process
	session *mcp.ClientSession
}

// plane starts it.
func (w *workspace) plane(started func(*cmdtest.Process), flags ...string) (*plane, error) {
	w.Helper()
	p := w.Prepare(append([]string{"mcp", "--decide"}, flags...)...)
	in, err := p.Cmd.StdinPipe()
	w.Check(err)
	out, err := p.Cmd.StdoutPipe()
	w.Check(err)
	p.Cmd.Stderr = &p.Err
	p.Begin()
	started(p)
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { _ = c.Close() })
	return &plane{p, c}, nil
}

func (p *plane) call(tool string, args map[string]any) (json.RawMessage, string, error) {
	return callTool(context.Background(), p.session, tool, args)
}

func callTool(ctx context.Context, session *mcp.ClientSession, tool string, args map[string]any) (json.RawMessage, string, error) {
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, "", err
	}
	answer, err := json.Marshal(res.StructuredContent)
	if err != nil || !res.IsError {
		return answer, "", err
	}
	return answer, codeOf(answer), nil
}

// processes are those that work in the workspace, by the folder that is their HOME, and that
// fit.
func (w *workspace) processes(fits func(argv []string, environ string) bool) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00HOME="+w.Dir+"\x00") {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && fits(strings.Split(string(argv), "\x00"), string(environ)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// executing are the processes that were launched for runs.
func (w *workspace) executing() []int {
	return w.processes(func(argv []string, _ string) bool { return len(argv) > 2 && argv[1] == "exec" })
}

// endLaunched ends what the workspace has launched, when the test is over: nobody else would
// if it has failed.
func (w *workspace) endLaunched() {
	w.Cleanup(func() {
		for _, pid := range w.processes(func(_ []string, environ string) bool { return strings.Contains(environ, "TIPSTAFF_LAUNCH=") }) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// killPid kills a process that is not our child, and reports whether it was there.
func killPid(pid int) bool { return !errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.ESRCH) }
