package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/provider"
	"github.com/tipstaff/tipstaff/provider/file"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// Names of environment variables of a scripted worker.
const (
	workerHome    = "TIPSTAFF_WORKER_HOME"    // the folder of its sessions
	workerPosture = "TIPSTAFF_WORKER_POSTURE" // what it may do by itself; "": auto
)

// workerAgent is `tipstaff worker-agent`: the program of scripted workers. It is to
// Tipstaff what the CLIs of others are: it takes a prompt on standard input, prints what
// happens as lines of JSON, reports through the channel and keeps its own sessions.
func workerAgent(args []string) int {
	_ = supervisor.Adopt()
	supervisor.Conceal()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a := scriptedWorker{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), home: os.Getenv(workerHome), posture: worker.Posture(os.Getenv(workerPosture))}
	ok, err := a.main(ctx, args)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case !ok:
		return 1
	}
	return 0
}

var errUsage = errors.New("usage: tipstaff worker-agent --script FILE (--session UUID | --resume ID), with the prompt on standard input")

type scriptedWorker struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	home           string
	posture        worker.Posture
}

// main takes one turn. ok: it ended with an answer. With an error it has not begun, and
// nothing was printed.
func (w scriptedWorker) main(ctx context.Context, args []string) (ok bool, err error) {
	flags := flag.NewFlagSet("worker-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	script, fresh, resumed := flags.String("script", "", ""), flags.String("session", "", ""), flags.String("resume", "", "")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *script == "" || (*fresh == "") == (*resumed == "") {
		return false, errUsage
	}
	if w.home == "" {
		return false, fmt.Errorf("%s is not in the environment: Tipstaff starts this for the workers that it runs", workerHome)
	}
	text, err := os.ReadFile(*script)
	if err != nil {
		return false, err
	}
	model, err := provider.Open(provider.Config{Provider: provider.Scripted, Script: text, ScriptName: *script})
	if err != nil {
		return false, err
	}
	answers, err := file.ParseScript(*script, text)
	if err != nil {
		return false, err
	}
	prompt, err := io.ReadAll(io.LimitReader(w.stdin, worker.MaxPrompt+1))
	if err != nil || len(prompt) == 0 || len(prompt) > worker.MaxPrompt {
		return false, errors.Join(errUsage, err)
	}
	conversation, path, err := w.session(*fresh, *resumed)
	if err != nil {
		return false, err
	}
	tools, err := w.tools(ctx, answers)
	if err != nil {
		return false, err
	}
	defer tools.close()
	// Whoever goes on after a crash knows what was asked.
	asked := agent.Session{ID: conversation.ID, Created: conversation.Created, Messages: append(conversation.Messages[:len(conversation.Messages):len(conversation.Messages)],
		agent.Message{Role: agent.User, Content: []agent.Content{{Type: agent.ContentText, Text: string(prompt)}}})}
	if err := saveSession(&asked, path); err != nil {
		return false, err
	}
	return w.turn(ctx, model, tools, conversation, path, string(prompt))
}

// mostWorkerSteps is how often the model is asked in one turn: scripts end by themselves.
const mostWorkerSteps = 1000

// rules say what needs no leave: reporting, reading, and what the posture lets it do.
func (w scriptedWorker) rules() []policy.Rule {
	rules := []policy.Rule{
		{ID: "channel", Tool: worker.ServerName + "/*", Do: policy.Allow},
		{ID: "reads", Tool: scriptedServer + "/*", Effect: []flow.Class{flow.Read}, Do: policy.Allow},
	}
	switch w.posture {
	case worker.Bypass:
		return append(rules, policy.Rule{ID: "bypass", Tool: scriptedServer + "/*", Do: policy.Allow})
	case worker.ReadOnly:
		return append(rules, policy.Rule{ID: "read_only", Tool: scriptedServer + "/*", Effect: []flow.Class{flow.Idempotent, flow.Once}, Do: policy.Deny})
	case worker.Write:
		return append(rules, policy.Rule{ID: "write", Tool: scriptedServer + "/write_file", Do: policy.Allow})
	}
	return rules // all else is asked about
}

// turn runs the loop and prints what happens in it.
func (w scriptedWorker) turn(ctx context.Context, model agent.Model, tools *workerTools, s *agent.Session, path, prompt string) (ok bool, err error) {
	rules, problems := policy.New(policy.Document{Rules: w.rules()})
	if problems != nil {
		return false, fmt.Errorf("the policy of scripted workers: %v", problems)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tools.interrupt = cancel
	events, err := agent.Run(ctx, agent.Config{Settings: agent.Settings{MaxSteps: mostWorkerSteps}, Model: model, Tools: tools, Approver: tools, Policy: rules, Principal: "local:channel"}, s, prompt)
	if err != nil {
		return false, err
	}
	w.print(map[string]any{"kind": "session", "id": s.ID})
	var usage tipstaff.ModelUsage
	message := ""
	for e := range events {
		switch b := e.Body.(type) {
		case *agent.ApprovalRequested:
			continue // of a gate that is in this process alone
		case *agent.ApprovalDecided:
			b.Gate = "" // likewise
		case *agent.Finish:
			usage, ok = b.Usage, true
		case *agent.Failed:
			usage, message = b.Usage, b.Msg
		}
		w.print(map[string]any{"kind": e.Body.Kind(), "body": e.Body})
	}
	if err := saveSession(s, path); err != nil {
		fmt.Fprintln(w.stderr, err)
		ok = false
	}
	end := map[string]any{"kind": "end", "is_error": !ok, "usage": usage}
	if message != "" {
		end["message"] = message
	}
	if usage.CostUSD != nil {
		end["cost_usd"] = *usage.CostUSD
	}
	w.print(end)
	return ok, nil
}

// print writes one line. A reader that has left is noticed by whoever reads.
func (w scriptedWorker) print(line map[string]any) {
	_, _ = w.stdout.Write(append(flow.JSON(line), '\n'))
}

// sessionForm is what an id may be: it is going to be the name of a file.
var sessionForm = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// session makes a session of the first id, or finds the one of the second.
func (w scriptedWorker) session(fresh, resumed string) (*agent.Session, string, error) {
	id := fresh + resumed // one of them is empty
	if !sessionForm.MatchString(id) {
		return nil, "", fmt.Errorf("%s is not the id of a session: %w", tipstaff.Quote(id, 80), errUsage)
	}
	folder := filepath.Join(w.home, "sessions")
	path := filepath.Join(folder, id+".jsonl")
	if resumed != "" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("no session %s", id)
		} else if err != nil {
			return nil, "", err
		}
		defer f.Close()
		s, err := agent.Load(f)
		return s, path, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, "", fmt.Errorf("session id %s is in use", id)
	} else if err != nil {
		return nil, "", err
	}
	defer f.Close()
	s := &agent.Session{ID: id, Created: time.Now().UTC()}
	return s, path, s.Save(f)
}

// saveSession replaces the file of a session at once, or not at all.
func saveSession(s *agent.Session, path string) error {
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		return fmt.Errorf("the session cannot be kept: %w", err)
	}
	if err := os.WriteFile(path+".new", b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// offeredBuiltins are the built-in tools that a scripted worker has.
var offeredBuiltins = []string{"exec", "list_dir", "read_file", "write_file"}

// programs are those that the script starts: its author is who configured the worker.
func scriptPrograms(answers *file.Script) (names []string) {
	for _, c := range answers.Calls() {
		if argv := argvOf(c.Arguments()); len(argv) > 0 {
			names = append(names, argv[0])
		}
	}
	return names
}

// builtins are rooted at the working directory. Programs carry the marks of the run, by
// which they can be found, and know its ports.
func (w scriptedWorker) builtins(answers *file.Script) (*builtin.Server, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var markers []string
	if run, launch := os.Getenv("TIPSTAFF_RUN_ID"), os.Getenv("TIPSTAFF_LAUNCH"); run != "" {
		markers = supervisor.Markers(run, launch)
	}
	for _, entry := range os.Environ() {
		if strings.HasPrefix(entry, delivery.PortVariable) {
			markers = append(markers, entry)
		}
	}
	return builtin.New(builtin.Options{Workspace: dir, Roots: []string{"."}, Programs: scriptPrograms(answers), Markers: markers,
		Protection: ws.Protect(nil, ws.Around{Dir: dir})}), nil
}
