// Command tipstaff runs plans of AI agents' work durably: every effect is
// journaled, every tool call passes a gate, every budget is bounded.
package main

import (
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/e2e"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/supervisor"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// main is not reached by a process that is the reaper of a program: see package
// supervisor/reap.
func main() {
	if len(os.Args) == 2 && os.Args[1] == "worker-mcp" { // hidden: CLIs start it as their server
		os.Exit(relay())
	}
	if len(os.Args) > 1 && os.Args[1] == "worker-agent" { // hidden: the program of scripted workers
		os.Exit(workerAgent(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == e2e.FilesCommand { // hidden: a server that e2e starts
		os.Exit(serveFiles(os.Args[2:]))
	}
	// The heap is small, and decoding what tools say makes much garbage: with the
	// usual setting half of the time would go into collecting it.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	_ = supervisor.Adopt() // without it, processes that hide are left to the system
	supervisor.Conceal()
	stop := newStop()
	env := stop.environment()
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		if log := supervisor.OwnLog(runner.LogName); log != nil {
			env.Stdout, env.Stderr = log, log
		}
	}
	os.Exit(cli.Main(stop.ctx, os.Args[1:], env))
}

// environment is what commands have besides their arguments.
func (s *stop) environment() *cli.Env {
	env := cli.FromOS()
	env.Version = versionInfo()
	if state, err := ws.StateDir(os.Getenv); err == nil {
		env.History = filepath.Join(state, "history")
	}
	env.Open, env.Connect = s.open, connect
	env.Within = func() []string {
		if within := s.within.Load(); within != nil {
			return (*within)()
		}
		return nil
	}
	env.Export = runner.Export
	env.Backup, env.CopyStore = backup, copyStore
	env.Doctor = doctor
	env.Classifier = classifier
	env.IsPipeline, env.PipelineSchema = pipeline.IsPipeline, pipeline.Schema()
	env.Trust = folderTrust{trusts}
	env.Tools = tools
	env.Skills = skills
	env.ListWorkers, env.CheckWorkers = listWorkers, checkWorkers
	env.Starter = starter
	env.Approve = agent.Asker(agent.AutoAllow{}, "auto")
	env.Serve, env.MCP, env.RunClient, env.SigninLink, env.ServeToken = s.serve, s.mcp, runClient, signinLink, serveToken
	env.EndToEnd = s.endToEnd
	env.OnInterrupt, env.Interrupt = s.onInterrupt, s.interrupt
	return env
}
