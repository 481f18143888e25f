package workspace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/worker"
)

// Codes of problems with workers and roles.
const (
	CodeDuplicate = "duplicate_name"
	CodeWorker    = "worker_unknown"
	CodeRole      = "role_unknown"
	CodeReserved  = "argument_reserved"
)

// DefaultWorker does the work of roles that nothing is said of.
const DefaultWorker = "claude"

// TypeScripted is the type of workers whose answers stand in a file.
const TypeScripted = "scripted"

// WorkerTypes are all types of workers, sorted. Each is also a worker of that name where
// the manifest has nothing else of it.
func WorkerTypes() []string { return slices.Sorted(slices.Values(worker.Types())) }

// What a CLI reads of its own settings.
const (
	SettingsNone = "none" // neither the user's nor the project's
	SettingsUser = "user" // the user's, so that its own allow rules apply
)

// What becomes of an invocation that was broken off.
const (
	InterruptAsk    = "ask"                 // a person is asked
	InterruptResume = worker.ResumeByItself // the session is gone on with
)

// Worker is what the manifest says of one worker. Its limits are spelled out.
type Worker struct {
	Type        string            `json:"type" doc:",in=claude|cursor|codex|gemini|opencode|scripted"`
	Command     string            `json:"command,omitempty" doc:""`                                // "": the type's own program, on PATH
	Model       string            `json:"model,omitempty" doc:""`                                  // "": the CLI's own choice
	Posture     worker.Posture    `json:"posture,omitempty" doc:",in=auto|read_only|write|bypass"` // "": the role's
	Args        []string          `json:"args,omitempty" doc:""`                                   // besides those that Tipstaff gives
	Env         map[string]string `json:"env,omitempty"`                                           // may hold $env:NAME references
	Package     string            `json:"package,omitempty" doc:""`                                // the file or folder that the lock has digests of beside what Command names; "": what lies beside that
	Ignore      []string          `json:"ignore,omitempty" doc:""`                                 // patterns of files of the workspace that have no digest in the lock
	Settings    string            `json:"settings" doc:",in=none|user"`
	OnInterrupt string            `json:"on_interrupt" doc:",in=ask|resume"`
	Script      File              `json:"script,omitzero" doc:""` // of scripted: its answers
	Limits      WorkerLimits      `json:"limits" doc:""`
}

// WorkerLimits bound one invocation.
type WorkerLimits struct {
	Wall        document.Duration `json:"wall" doc:",min=1ms,max=720h"`
	Idle        document.Duration `json:"idle" doc:",min=1ms,max=720h"` // without a byte of output
	CostUSD     tipstaff.USD      `json:"cost_usd"`
	Output      int64             `json:"output"` // bytes
	Grace       document.Duration `json:"grace" doc:",min=1ms,max=10m"`
	Tokens      int64             `json:"tokens,omitempty" doc:",min=1"`                          // 0: no limit
	Containment string            `json:"containment,omitempty" doc:",in=group|subreaper|cgroup"` // the least level that is accepted; "": any
}

var defaultLimits = WorkerLimits{
	Wall: document.Duration(30 * time.Minute), Idle: document.Duration(10 * time.Minute), CostUSD: 2_000_000_000,
	Output: 256 << 20, Grace: document.Duration(10 * time.Second),
}

// maxOutput is the most that a worker may be let print.
const maxOutput = 16 << 30

// Invocation is the limits as package worker takes them.
func (l WorkerLimits) Invocation() worker.Limits {
	return worker.Limits{
		Wall: time.Duration(l.Wall), Idle: time.Duration(l.Idle), Grace: time.Duration(l.Grace),
		Output: l.Output, Tokens: l.Tokens, CostUSD: l.CostUSD, Containment: l.Containment,
	}
}

// Role is what the manifest says of one role.
type Role struct {
	Prompt  File           `json:"prompt,omitzero" doc:""`                                  // of a built-in role it may be left out
	Posture worker.Posture `json:"posture,omitempty" doc:",in=auto|read_only|write|bypass"` // "": the built-in role's, else auto
}

// Worker is a worker by its name: a configured one, or the type of that name, unless
// something else has taken it.
func (m *Manifest) Worker(name string) (Worker, bool) {
	m = m.orNone()
	if w, ok := m.Workers[name]; ok {
		return w, true
	}
	_, agent := m.Agents[name]
	_, role := m.Roles[name]
	if agent || role || !slices.Contains(WorkerTypes(), name) {
		return Worker{}, false
	}
	w := Worker{Type: name}
	w.spellOut()
	return w, true
}

// WorkerNames are all workers, sorted, the built-in ones included.
func (m *Manifest) WorkerNames() []string {
	names := sortedKeys(m.orNone().Workers)
	for _, t := range WorkerTypes() {
		if _, ok := m.Worker(t); ok && !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	slices.Sort(names)
	return names
}

// Role is a role by its name: a configured one, or a built-in one, unless something else
// has taken its name. The prompt of one in a frozen manifest is empty.
func (m *Manifest) Role(name string) (worker.Role, bool) {
	m = m.orNone()
	role, builtin := worker.BuiltinRole(name)
	c, configured := m.Roles[name]
	if configured {
		role.Name, role.Posture = name, cmp.Or(c.Posture, role.Posture, worker.Auto)
		if c.Prompt.Name != "" {
			role.Prompt = c.Prompt.Text
		}
		return role, true
	}
	_, agent := m.Agents[name]
	_, taken := m.Workers[name]
	if agent || taken || !builtin {
		return worker.Role{}, false
	}
	return role, true
}

// RoleNames are all roles, sorted, the built-in ones included.
func (m *Manifest) RoleNames() []string {
	names := sortedKeys(m.orNone().Roles)
	for _, r := range worker.Roles() {
		if _, ok := m.Role(r.Name); ok && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// In is what a worker may do in a role; the zero role is none. A role that only
// reads is never given more by the worker that plays it.
func (w Worker) In(r worker.Role) worker.Posture {
	if r.Posture == worker.ReadOnly {
		return worker.ReadOnly
	}
	return cmp.Or(w.Posture, r.Posture, worker.Auto)
}

// WorkerChoice is what a worker is chosen by, in this order.
type WorkerChoice struct {
	Flag    string   // of the command line; "": none
	Own     string   // that the task or the agent names; "": none
	Role    string   // "": none
	Environ []string // NAME=value
}

// WorkerFor is the worker that a choice falls on, and where that was said. One that does
// not exist is worker_unknown.
func (m *Manifest) WorkerFor(c WorkerChoice) (name, where string, err error) {
	variable := workerVariable(c.Role)
	switch bound := m.orNone().Bindings[c.Role]; {
	case c.Flag != "":
		name, where = c.Flag, "--worker"
	case c.Own != "":
		name, where = c.Own, "worker"
	case c.Role != "" && Lookup(c.Environ, variable) != "":
		name, where = Lookup(c.Environ, variable), variable
	case c.Role != "" && bound != "":
		name, where = bound, "bindings."+c.Role
	default:
		name, where = DefaultWorker, "default"
	}
	if _, ok := m.Worker(name); !ok {
		return "", where, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker %s, which %s names%s",
			tipstaff.Quote(name, 100), where, tipstaff.Suggest(name, m.WorkerNames()))
	}
	return name, where, nil
}

// workerVariable is the variable that binds a role.
func workerVariable(role string) string {
	return "TIPSTAFF_WORKER_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_"))
}

// CheckKey checks the name of a worker.
func (w *Worker) CheckKey(name string) error { return checkName(name, "a worker") }

// CheckKey checks the name of a role.
func (r *Role) CheckKey(name string) error { return checkName(name, "a role") }

// CheckDocument reads what a tag cannot say.
func (w *Worker) CheckDocument(f *document.Fields) {
	needs(f, "type", ": "+document.Alternatives(WorkerTypes()))
	check(f, "command", func(s string) error {
		if s == "" || strings.ContainsAny(s, "\x00\n") {
			return fmt.Errorf("%q is not a program", s)
		}
		if strings.ContainsAny(s, " \t") {
			return fmt.Errorf("%q has a blank: name the program alone, its arguments belong in args", s)
		}
		return nil
	})
	check(f, "model", func(s string) error {
		if s == "" || strings.HasPrefix(s, "-") || strings.ContainsAny(s, "\x00\r\n\t ") {
			return fmt.Errorf("%q cannot name a model", s)
		}
		return nil
	})
	if v := f.Typed("yolo", document.Boolean); v != nil {
		bypass := v.Text == "true"
		switch {
		case w.Posture != "" && bypass != (w.Posture == worker.Bypass):
			f.Report(document.CodeFieldInvalid, v.At, "yolo", "%s is %s, and posture is %s: yolo: true means posture: bypass; leave one of them out", f.PathOf("yolo"), v.Text, w.Posture)
		case bypass:
			w.Posture = worker.Bypass
		}
	}
	check(f, "package", checkRoot)
	checkEach(f, "ignore", checkPattern)
	for _, name := range []string{"package", "ignore"} {
		if v := f.Get(name); v != nil && w.Command == "" {
			f.Report(document.CodeRange, v.At, name, "%s: %s goes with command", f.Path, name)
		}
	}
	w.checkArgs(f)
	w.Env = values(f, "env", func(name string) error { return w.checkVariable(name) })
	switch script := f.Get("script"); {
	case w.Type == TypeScripted:
		needs(f, "script", ": the file that holds its answers")
	case script != nil && w.Type != "":
		f.Report(document.CodeFieldUnknown, script.At, "script", "%s: script goes with type: scripted", f.Path)
	}
	w.spellOut()
}

// checkArgs reports arguments that a worker may not be given.
func (w *Worker) checkArgs(f *document.Fields) {
	checkEach(f, "args", checkArgument)
	v := f.Get("args")
	if v == nil || v.Kind != document.List || len(v.Items) != len(w.Args) {
		return
	}
	for i, why := range worker.ArgFaults(w.Type, w.Args) {
		f.Report(CodeReserved, v.Items[i].At, index("args", i), "%s %s", tipstaff.Quote(w.Args[i], 80), why)
	}
	if i := credentialArgument(slices.Concat([]string{""}, w.Args)); i > 0 {
		f.Report(CodeCredential, v.Items[i-1].At, index("args", i-1), "%s is a credential, which every user of the machine could see: put it into a variable and write env: {NAME: %sNAME}", index(f.PathOf("args"), i-1), ReferencePrefix)
	}
}

// spellOut fills in what is left out.
func (w *Worker) spellOut() {
	w.Settings, w.OnInterrupt = cmp.Or(w.Settings, SettingsNone), cmp.Or(w.OnInterrupt, InterruptAsk)
	l := &w.Limits
	l.Wall, l.Idle, l.Grace = cmp.Or(l.Wall, defaultLimits.Wall), cmp.Or(l.Idle, defaultLimits.Idle), cmp.Or(l.Grace, defaultLimits.Grace)
	l.CostUSD, l.Output = cmp.Or(l.CostUSD, defaultLimits.CostUSD), cmp.Or(l.Output, defaultLimits.Output)
}

// CheckDocument reads what a tag cannot say.
func (l *WorkerLimits) CheckDocument(f *document.Fields) {
	l.Output = readSize(f, "output", maxOutput)
	v := f.Typed("cost_usd", document.Text)
	if v == nil {
		return
	}
	cost, err := tipstaff.ParseUSD(v.Text)
	switch {
	case err != nil:
		f.Report(document.CodeRange, v.At, "cost_usd", "%s: %s is not an amount like \"2.00\"", f.PathOf("cost_usd"), tipstaff.Quote(v.Text, 40))
	case cost == 0:
		f.Report(document.CodeRange, v.At, "cost_usd", "%s is nothing: with it no worker could be asked", f.PathOf("cost_usd"))
	}
	l.CostUSD = cost
}

// CheckDocument: only a built-in role has a prompt already.
func (r *Role) CheckDocument(f *document.Fields) {
	if _, builtin := worker.BuiltinRole(f.Name); !builtin {
		needs(f, "prompt", ": the file that says what to do in it")
	}
}

// checkWorkers: names of agents, workers and roles are of one kind, and what refers to a
// worker or role must mean one.
func (m *Manifest) checkWorkers(f *document.Fields) {
	m.checkNames(f)
	for _, role := range sortedKeys(m.Bindings) {
		at, name := f.Value.Get("bindings").Member(role), m.Bindings[role]
		if at.Value.Kind != document.Text {
			continue // was reported
		}
		path := "bindings." + role
		if _, ok := m.Role(role); !ok {
			f.Problems.Add(CodeRole, at.At, path, "there is no role %s%s", tipstaff.Quote(role, 100), tipstaff.Suggest(role, m.RoleNames()))
		}
		m.needsWorker(f, at.Value, path, name)
	}
	for _, name := range sortedKeys(m.Agents) {
		a, of := m.Agents[name], func(field string) *document.Value { return f.Value.Find("agents", name, field) }
		if a.Worker != "" {
			m.needsWorker(f, of("worker"), "agents."+name+".worker", a.Worker)
		}
		if a.Role != "" {
			m.needsRole(f, of("role"), "agents."+name+".role", a.Role)
		}
		if a.Review != "" && a.Review != tipstaff.ReviewNone && a.Review != tipstaff.ReviewPerson {
			m.needsRole(f, of("review"), "agents."+name+".review", a.Review)
		}
	}
}

func (m *Manifest) needsWorker(f *document.Fields, v *document.Value, path, name string) {
	if _, ok := m.Worker(name); !ok {
		f.Problems.Add(CodeWorker, v.At, path, "there is no worker %s%s", tipstaff.Quote(name, 100), tipstaff.Suggest(name, m.WorkerNames()))
	}
}

func (m *Manifest) needsRole(f *document.Fields, v *document.Value, path, name string) {
	if _, ok := m.Role(name); !ok {
		f.Problems.Add(CodeRole, v.At, path, "there is no role %s%s", tipstaff.Quote(name, 100), tipstaff.Suggest(name, m.RoleNames()))
	}
}

// checkNames reports names of agents, workers and roles that an earlier one has: all of
// them are agents of steps.
func (m *Manifest) checkNames(f *document.Fields) {
	type named struct {
		section string
		document.Member
	}
	var all []named
	for _, section := range []string{"agents", "workers", "roles"} {
		if v := f.Value.Get(section); v != nil {
			for _, member := range v.Members {
				all = append(all, named{section, member})
			}
		}
	}
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	first := map[string]string{}
	for _, n := range all {
		earlier, again := first[n.Key]
		path := n.section + "." + n.Key
		switch {
		case again:
			f.Problems.Add(CodeDuplicate, n.At, path, "%s has the name of %s.%s: agents, workers and roles share their names", path, earlier, n.Key)
		case n.Key == DefaultAgent && n.section != "agents":
			f.Problems.Add(CodeDuplicate, n.At, path, "%s: the name %s is an agent's", path, DefaultAgent)
		}
		first[n.Key] = cmp.Or(earlier, n.section)
	}
}

// references are all variables that a worker's configuration refers to, sorted.
func (w Worker) references() []string {
	return referencesIn(slices.Collect(maps.Values(w.Env))...)
}
