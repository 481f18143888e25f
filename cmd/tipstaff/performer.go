package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// workerPerformer has coding CLIs do steps and stages.
type workerPerformer struct {
	store  worker.Store
	folder string // of the store
	alive  func(flow.Owner) bool
}

// Agent implements [runner.Performer]: workers, roles, and agents that name one.
func (p *workerPerformer) Agent(m *ws.Manifest, name string) plan.AgentInfo {
	c, err := chosen(m, name, nil)
	if err != nil {
		return plan.AgentInfo{Trouble: plan.Trouble{Code: string(tipstaff.WorkerNotFound), Message: err.Error()}}
	}
	by, _ := m.Worker(c.worker)
	as, _ := m.Role(c.role)
	return plan.AgentInfo{Once: true, Writes: by.In(as) != worker.ReadOnly}
}

// choice is who does what an agent's name stands for, and how.
type choice struct {
	worker, role string
	agent        ws.Agent
}

// chosen finds the worker that a name stands for.
func chosen(m *ws.Manifest, name string, t *tipstaff.Task) (c choice, err error) {
	own := ""
	if _, ok := m.Worker(name); ok {
		own = name
	} else if a, ok := m.Agent(name); ok && a.Model == "" {
		c.agent, c.role, own = a, a.Role, a.Worker
	} else if _, ok := m.Role(name); ok {
		c.role = name
	} else {
		return c, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker, role or agent %s%s", tipstaff.Quote(name, 100), tipstaff.Suggest(name, slices.Concat(m.WorkerNames(), m.RoleNames())))
	}
	if t != nil && t.Worker != "" {
		own = t.Worker
	}
	c.worker, _, err = m.WorkerFor(ws.WorkerChoice{Own: own, Role: c.role, Environ: os.Environ()})
	return c, err
}

// Settle implements [runner.Performer]. Who does the work is chosen here and never again.
func (p *workerPerformer) Settle(s *runner.Settlement) error {
	c, err := chosen(s.Manifest, s.Name, s.Task)
	if err != nil {
		return err
	}
	settled, err := settledWorker(s.Manifest, c.worker, c.role)
	if err != nil {
		return err
	}
	settled.Counted = s.Counted()
	settled.Review, settled.OnFailure, settled.OnBound, settled.MaxIterations = c.agent.Review, c.agent.OnWorkerFailure, c.agent.OnBound, c.agent.MaxIterations
	if t := s.Task; t != nil {
		settled.Review, settled.MaxIterations, settled.OnFailure = t.Review, t.MaxIterations, worker.AskOnFailure
	}
	if s.Stage() {
		settled.Review = tipstaff.ReviewNone
	}
	if role := settled.Review; role != "" && role != tipstaff.ReviewNone && role != tipstaff.ReviewPerson {
		by, err := chosen(s.Manifest, role, nil)
		if err != nil {
			return err
		}
		reviewer, err := settledWorker(s.Manifest, by.worker, by.role)
		if err != nil {
			return err
		}
		reviewer.Posture, reviewer.Counted = worker.ReadOnly, settled.Counted
		settled.Reviewer = &reviewer
	}
	if settled.Posture != worker.ReadOnly {
		s.Writes()
	}
	s.Freeze(flow.JSON(settled))
	return nil
}

// settledWorker is a worker in a role, as the manifest has both.
func settledWorker(m *ws.Manifest, name, role string) (s worker.Settled, err error) {
	c, ok := m.Worker(name)
	if !ok {
		return s, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker %s", tipstaff.Quote(name, 100))
	}
	as, _ := m.Role(role)
	s = worker.Settled{Worker: name, Type: c.Type, Config: flow.JSON(c), Role: role, Preamble: worker.Preamble(as), Model: c.Model, Posture: c.In(as),
		Settings: c.Settings, Limits: c.Limits.Invocation(), OnInterrupt: c.OnInterrupt}
	if rules := m.Rules(); rules != nil {
		s.Policy = rules.Digest()
	}
	return s, nil
}

// Perform implements [runner.Performer].
func (p *workerPerformer) Perform(fc flow.Context, t *runner.Task) (runner.Result, error) {
	a := worker.Assignment{Task: t.Assigned, Schema: t.Schema, Effect: t.Effect, Timeout: t.Timeout, Reserve: t.Reserve, Asks: t.Asks, Keep: t.Session != ""}
	if err := json.Unmarshal(t.Config, &a.Settled); err != nil {
		return runner.Result{}, fmt.Errorf("what was settled of %s cannot be read: %w", t.Name, err)
	}
	a.Name, a.Description, a.Skill = t.Title(), t.Prompt, t.Prose()
	a.Inputs = inputsOf(t.Args, t.Assigned != "")
	if t.Kept != nil {
		if err := json.Unmarshal(t.Kept, &a.Kept); err != nil {
			return runner.Result{}, err
		}
	}
	out, err := worker.Drive(fc, a)
	res := runner.Result{Usage: a.Charged(out.Usage), Notices: out.Notices}
	if a.Keep {
		res.Keep = flow.JSON(out.Kept) // null: the task has ended, and its session with it
	}
	var halted *worker.Halted
	if errors.As(err, &halted) {
		err = runner.Declined(halted.Decision, halted)
	}
	if err != nil {
		return res, err
	}
	value := out.Data
	if value == nil && out.Verdict != nil {
		value = flow.JSON(out.Verdict)
	}
	said := runner.Spoken(out.Text, value)
	said.Usage, said.Keep, said.Notices = res.Usage, res.Keep, res.Notices
	return said, nil
}

// CheckAnswer implements [runner.AnswerChecker].
func (p *workerPerformer) CheckAnswer(d runner.Doubt) (*runner.Result, error) {
	if d.Call != worker.SpawnActivity && d.Call != worker.ResumeActivity {
		return nil, nil
	}
	out, ends, err := worker.CheckGiven(d.Answer, d.Schema, worker.Reviews(d.Path))
	if err != nil || !ends {
		return nil, err
	}
	res := runner.Spoken(out.Text, out.Data)
	return &res, nil
}

// inputsOf are the inputs of a step as a worker reads them: each under its name. Those of
// a task are files and texts.
func inputsOf(args json.RawMessage, ofTask bool) (inputs []tipstaff.TaskInput) {
	if ofTask {
		var of struct{ Paths, Texts []string }
		_ = json.Unmarshal(args, &of) // as Task.Plan has written it
		for _, path := range of.Paths {
			inputs = append(inputs, tipstaff.TaskInput{Path: path})
		}
		for _, text := range of.Texts {
			inputs = append(inputs, tipstaff.TaskInput{Text: text})
		}
		return inputs
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(args, &named) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		text := string(named[name])
		var plain string
		if json.Unmarshal(named[name], &plain) == nil {
			text = plain
		}
		inputs = append(inputs, tipstaff.TaskInput{Text: name + ": " + text})
	}
	return inputs
}

// Activities implements [runner.Performer].
func (p *workerPerformer) Activities(env *runner.Environment) map[string]flow.Activity {
	h := &worker.Host{
		Store: p.store, Self: supervisor.Self("worker", ""), Alive: p.alive, User: env.User, Base: env.Base,
		Folder: filepath.Join(p.folder, "runs", env.Run, "workers"), Redact: env.Redact, Starter: process.Workers{}, Worktree: env.InWorktree(),
		Make: (&runWorkers{workspace: filepath.Dir(p.folder)}).open,
		Dir: func(_ context.Context, posture worker.Posture) (string, error) {
			return env.Directory(posture != worker.ReadOnly)
		},
		Environ: func(s worker.Settled) ([]string, error) { return workerEnviron(s, env) },
		Policy:  func(l *worker.Local, dir string) worker.Policy { return workerPolicy(l, dir, env) },
		Watch: func(ctx context.Context, path string) (func(func(flow.Event)) ([]tipstaff.Notice, []string), error) {
			return env.Watch(ctx, path)
		},
		Price: workerPrice(env.Frozen),
		NewID: func() string { return tipstaff.NewID(time.Now()).String() },
		Now:   time.Now,
	}
	return worker.Activities(h)
}

// runWorkers are the workers of one program, as it has settled them.
type runWorkers struct {
	workspace string

	mu     sync.Mutex
	opened worker.Registry
}

// open makes a worker when it is first asked for.
func (r *runWorkers) open(s worker.Settled) (worker.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, err := r.opened.Get(s.Worker); err == nil {
		return w, nil
	}
	var c ws.Worker
	if err := json.Unmarshal(s.Config, &c); err != nil {
		return nil, fmt.Errorf("the configuration of worker %s cannot be read: %w", s.Worker, err)
	}
	if c.Script.Name != "" && !filepath.IsAbs(c.Script.Name) {
		c.Script.Name = filepath.Join(r.workspace, c.Script.Name)
	}
	w, err := newWorker(r.workspace, s.Worker, c)
	if err != nil {
		return nil, err
	}
	return w, r.opened.Register(s.Worker, w)
}

// workerPrice prices the tokens of a CLI that does not tell what it costs, by the table
// that the run's models are priced by.
func workerPrice(m *ws.Manifest) worker.Price {
	var prices ws.File
	if m != nil {
		prices = m.ModelsFile
	}
	table, err := priceTable(prices)
	if err != nil {
		return nil // it was read when the run was made; without it no price is known
	}
	return func(model string, u tipstaff.ModelUsage) (tipstaff.USD, bool) {
		model = model[strings.LastIndexByte(model, '/')+1:] // opencode puts the vendor before it
		p := table.Caps(model, false).Price
		if p == nil {
			return 0, false
		}
		return p.Cost(u), true
	}
}

// workerEnviron is the environment of a worker's process, as it was configured when the run
// was made, with the markers of the run.
func workerEnviron(s worker.Settled, env *runner.Environment) ([]string, error) {
	own, err := env.Frozen.WorkerEnviron(s.Worker, os.Environ())
	return append(own, env.Environ()...), err
}

// workerPolicy is the stricter of the policy that the run has frozen and the one in force,
// with what was granted.
func workerPolicy(l *worker.Local, dir string, env *runner.Environment) worker.Policy {
	return policyIn(dir, env.ProtectedIn(dir), policy.Run{ID: env.Run, Principal: env.User},
		worker.PolicyOptions{Type: l.Type, Grants: l.Grants}, env.Frozen.Rules(), env.Policy)
}

// policyIn is that policy of a worker in a directory. A command may write to the files there
// that the worker may write.
func policyIn(dir string, protected worker.Protected, by policy.Run, o worker.PolicyOptions, frozen *policy.Policy, current func() (*policy.Policy, error)) worker.Policy {
	writable := func(path string) bool { return worker.Outside(dir, path, protected) == "" }
	o.Dir, o.Protected, o.Frozen = dir, protected, workerRules{frozen, by, writable}
	o.Current = func() (worker.Rules, error) {
		rules, err := current()
		return workerRules{rules, by, writable}, err
	}
	return worker.NewPolicy(o)
}
