package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/e2e"
	"github.com/tipstaff/tipstaff/provider"
	"github.com/tipstaff/tipstaff/runner"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// endToEnd tries this very build.
func (s *stop) endToEnd(ctx context.Context, o cli.EndToEndOptions) (cli.EndToEndReport, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if o.Live {
		if err := requireTrust(o.Workspace); err != nil { // whose model is asked
			return nil, err
		}
	}
	if err := (folderTrust{trusts}).Everywhere(); err != nil { // its folders are its own
		return nil, err
	}
	p := s.product([]string{self, e2e.FilesCommand})
	p.Models = func() (json.RawMessage, string, error) { return liveModel(o.Workspace) }
	r, err := e2e.Run(ctx, p, e2e.Options{Live: o.Live, Sabotage: o.Sabotage})
	if err != nil {
		return nil, err // no report, rather than one that is nil
	}
	return r, nil
}

// product is what is tried, with the command line of the server files.
func (s *stop) product(files []string) *e2e.Product {
	return &e2e.Product{
		Files: files,
		Tools: tools,
		Open: func(ctx context.Context, workspace string, asked func(string)) (e2e.Session, error) {
			return s.openAs(ctx, cli.OpenOptions{Workspace: workspace}, runner.Config{Origin: "foreground",
				Models: func(c ws.Model, prices ws.File) (agent.Model, error) {
					m, err := openModel(c, prices)
					return overheard{m, asked}, err
				}})
		},
		Command: func(ctx context.Context, args ...string) (int, []byte) {
			var out bytes.Buffer
			env := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Open: s.open, Export: runner.Export}
			code := cli.Main(ctx, args, env)
			return code, out.Bytes()
		},
	}
}

// overheard is a model whose requests are told.
type overheard struct {
	agent.Model
	asked func(request string)
}

func (m overheard) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	said := []string{r.System}
	for _, message := range r.Messages {
		said = append(said, message.Text)
	}
	m.asked(strings.Join(said, "\n"))
	return m.Model.Stream(ctx, r, emit)
}

// liveModel is the model of the agent default, as the manifest of a workspace declares it.
func liveModel(workspace string) (json.RawMessage, string, error) {
	dir, err := folder(workspace)
	if err != nil {
		return nil, "", err
	}
	m, err := ws.Read(dir)
	if err != nil {
		return nil, "", err
	}
	if m == nil {
		return nil, "", tipstaff.Errorf(tipstaff.InvalidArgument, "%s has no %s whose model could be used", dir, ws.FileName).
			WithCommand("`tipstaff init` writes one to begin with")
	}
	name := m.Agents["default"].Model
	model, ok := m.Models[name]
	if !ok || model.Provider == provider.Scripted {
		return nil, "", tipstaff.Errorf(tipstaff.InvalidArgument, "the agent default of %s has no live model", ws.FileName).
			WithHint("declare a model that is not scripted under models, and name it in agents.default.model")
	}
	declared, err := json.Marshal(map[string]ws.Model{name: model})
	return declared, name, err
}

// serveFiles is the hidden command that is the server files of e2e.
func serveFiles(args []string) int {
	if len(args) != 2 {
		fmt.Fprintf(os.Stderr, "usage: tipstaff %s FOLDER COUNTER\n", e2e.FilesCommand)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := e2e.ServeFiles(ctx, args[0], args[1]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "tipstaff %s: %v\n", e2e.FilesCommand, err)
		return 1
	}
	return 0
}
