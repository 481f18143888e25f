//go:build linux

package clis

import (
	"cmp"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/clis/api"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// workspace is a repository with a manifest that has one worker, named w, and a task for
// it. The command's home is the folder around the repository.
type workspace struct {
	*cmdtest.Folder
	cli   cli
	api   *api.Server
	task  string // its id
	model string // as the manifest names it
}

// worker is what the manifest says of w; rules are the policy's, as YAML.
type worker struct {
	posture posture
	review  string // "": none
	rules   string
	idle    string // limit; "": long
	task    string // what it is to do; "": [description]
	before  string // what a shell does before the CLI starts
}

// The longest that a command may take, and limits of the worker: of an invocation whose
// cost the CLI does not tell, all that it may cost is charged.
const (
	commandPatience = 10 * time.Minute
	wall, idle      = "8m", "4m"
	cost            = "0.10"
)

func newWorkspace(t *testing.T, c cli, spec worker, turns ...api.Turn) *workspace {
	t.Helper()
	installed(t)
	w := &workspace{cli: c, api: newAPI(t, turns...)}
	w.Folder = cmdtest.New(t, cmdtest.Released, commandPatience)
	t.Cleanup(func() { end(w.left()) })
	config := c.worker(w)
	config["type"] = c.name()
	if config["command"] == nil {
		config["command"] = program(c.name())
	}
	if spec.before != "" {
		w.Write("cli", "#!/bin/sh\n"+spec.before+"\nexec "+program(c.name())+` "$@"`+"\n")
		w.Check(os.Chmod(w.Path("cli"), 0o755))
		config["command"] = w.Path("cli")
	}
	w.model, _ = config["model"].(string)
	config["posture"] = spec.posture
	config["limits"] = map[string]string{"wall": wall, "idle": cmp.Or(spec.idle, idle), "grace": "5s", "cost_usd": cost}
	w.Env = append(c.passed(w), "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost")
	w.Write("repo/tipstaff.yaml", "version: 1\nworkers: "+quoted(map[string]any{"w": config})+"\npolicy:\n  rules: ["+spec.rules+"]\n")
	w.Write("repo/README", "a repository\n")
	w.Write("repo/task.md", cmp.Or(spec.task, description)+"\n")
	w.Write("repo/.gitignore", ".tipstaff/\n")
	w.git("init", "-q")
	w.commit()
	if spec.review == "" {
		spec.review = "none"
	}
	w.task = strings.TrimSpace(w.must(0, "task", "new", "--name", "the work", "--description", "task.md", "--worker", "w", "--review", spec.review).Out)
	return w
}

// description of the task, which the first prompt contains.
const description = "Look after the walnut."

func (w *workspace) git(args ...string) string {
	w.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.Path("repo")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir}
	out, err := c.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// commit commits what is in the checkout.
func (w *workspace) commit() {
	w.Helper()
	w.git("add", "-A")
	w.git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "a change")
}

// start starts the command in the repository.
func (w *workspace) start(args ...string) *cmdtest.Process {
	w.Helper()
	p := w.Prepare(args...)
	p.Cmd.Dir = w.Path("repo")
	p.Listen()
	p.Begin()
	return p
}

// must runs the command to its end, which must have the exit code.
func (w *workspace) must(code int, args ...string) cmdtest.Result {
	w.Helper()
	return w.start(args...).Must(code)
}

// ends runs the command to the end of the run. What the worker has changed is delivered: it
// becomes a branch.
func (w *workspace) ends(args ...string) {
	w.Helper()
	r := w.start(args...).Wait()
	if r.Code == 4 && strings.Contains(r.Err, "delivery#1 approve") {
		run := w.show().Run
		w.must(0, "decide", run, "delivery#1", "approve")
		r = w.start("resume", run).Wait()
	}
	if r.Code != 0 {
		w.Fatalf("want the end of the run\n%v", r)
	}
}

// task as task show --json has it, as far as tests read it.
type task struct {
	Status    string `json:"status"`
	Run       string `json:"run_id"`
	Session   string `json:"session_id"`
	Iteration int    `json:"iteration"`
	Outcome   string `json:"last_outcome"`
	Pause     struct {
		Reason   string `json:"reason"`
		Question string `json:"question"`
	} `json:"pause"`
}

func (w *workspace) show() (t task) {
	w.Helper()
	w.Check(json.Unmarshal([]byte(w.must(0, "task", "show", w.task, "--json").Out), &t))
	return t
}

// is fails the test unless the task has the status and, if one is given, the outcome.
func (w *workspace) is(status string, outcomes ...string) task {
	w.Helper()
	t := w.show()
	if t.Status != status || len(outcomes) > 0 && !slices.Contains(outcomes, t.Outcome) {
		w.Errorf("the task is %s after %q, not %s after %q", t.Status, t.Outcome, status, outcomes)
	}
	return t
}

// gate is the key of the open gate of a kind.
func (w *workspace) gate(kind string) string {
	w.Helper()
	var run struct {
		OpenGates []struct{ Kind, Key string } `json:"open_gates"`
	}
	w.Check(json.Unmarshal([]byte(w.must(0, "show", w.show().Run, "--json").Out), &run))
	for _, g := range run.OpenGates {
		if g.Kind == kind {
			return g.Key
		}
	}
	w.Fatalf("no gate of kind %s is open, but %+v", kind, run.OpenGates)
	return ""
}

// body is that of a record, as far as tests read it.
type body struct {
	Outcome string `json:"outcome"`
	Which   string `json:"which"`
	Resumed bool   `json:"resumed"`
	Usage   struct {
		Input  int    `json:"input_tokens"`
		Output int    `json:"output_tokens"`
		Cost   string `json:"cost_usd"`
	} `json:"usage"`
}

// records of a kind that the run has.
func (w *workspace) records(kind string) (found []body) {
	w.Helper()
	for line := range strings.Lines(w.must(0, "events", w.show().Run, "--json").Out) {
		var r struct {
			Kind string
			Body json.RawMessage
		}
		w.Check(json.Unmarshal([]byte(line), &r))
		if r.Kind == kind {
			var b body
			w.Check(json.Unmarshal(r.Body, &b))
			found = append(found, b)
		}
	}
	return found
}

// spent fails the test unless each invocation has the usage of as many answers, whatever its
// CLI adds up over a session. Claude Code tells what it cost, and Gemini's model has a price;
// what is not known is charged as it was reserved.
func (w *workspace) spent(answers ...int) {
	w.Helper()
	known := w.cli.name() == "claude" || w.cli.name() == "gemini"
	ended, sum := w.records("worker.ended"), new(big.Rat)
	if len(ended) != len(answers) {
		w.Fatalf("there were %d invocations, not %d", len(ended), len(answers))
	}
	for n, e := range ended {
		if e.Usage.Input != answers[n]*api.InputTokens || e.Usage.Output != answers[n]*api.OutputTokens {
			w.Errorf("invocation %d used %+v in %d answers", n+1, e.Usage, answers[n])
		}
		if (e.Usage.Cost != "") != known || answers[n] == answers[0] && e.Usage.Cost != ended[0].Usage.Cost {
			w.Errorf("invocation %d cost %q", n+1, e.Usage.Cost)
		}
		sum.Add(sum, w.usd(cmp.Or(e.Usage.Cost, cost)))
	}
	var run struct {
		Bounds struct {
			Cost struct{ Used string } `json:"cost_usd"`
		} `json:"bounds"`
	}
	w.Check(json.Unmarshal([]byte(w.must(0, "show", w.show().Run, "--json").Out), &run))
	if w.usd(run.Bounds.Cost.Used).Cmp(sum) != 0 {
		w.Errorf("the run was charged %s, not %s", run.Bounds.Cost.Used, sum.FloatString(9))
	}
}

func (w *workspace) usd(text string) *big.Rat {
	w.Helper()
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		w.Fatalf("%q is no amount", text)
	}
	return amount
}

// worktrees is where those of runs are, a pattern.
const worktrees = ".local/state/tipstaff/worktrees/*"

// worktree is a file of the run's worktree, or of what was delivered of it.
func (w *workspace) worktree(name string) string {
	w.Helper()
	found, err := filepath.Glob(w.Path(worktrees, name))
	w.Check(err)
	if len(found) == 0 {
		branch := w.git("for-each-ref", "--format=%(refname)", "refs/heads/tipstaff/deliver/")
		if branch == "" || w.git("ls-tree", "--name-only", branch, name) == "" {
			return ""
		}
		return w.git("show", branch+":"+name)
	}
	content, err := os.ReadFile(found[0])
	w.Check(err)
	return string(content)
}

// logs are the raw logs of the workers, joined.
func (w *workspace) logs(suffix string) string {
	w.Helper()
	found, err := filepath.Glob(w.Path("repo/.tipstaff/runs/*/workers/*" + suffix))
	w.Check(err)
	var b strings.Builder
	for _, file := range found {
		content, err := os.ReadFile(file)
		w.Check(err)
		b.Write(content)
	}
	return b.String()
}

// lastRequest is the newest of a conversation.
func (w *workspace) lastRequest() api.Request {
	w.Helper()
	all := w.api.Requests()
	if len(all) == 0 {
		w.Fatal("the API was never asked")
	}
	return all[len(all)-1]
}

// left are the processes of the workspace's runs: those that have its home and a run's
// marker in their environment, and whatever is below a reaper of it.
func (w *workspace) left() (found []process) {
	for _, p := range processes() {
		if p.environment("HOME") == w.Dir && (p.environment("TIPSTAFF_RUN_ID") != "" || p.reaps()) {
			found = append(append(found, p), below(p.pid)...)
		}
	}
	slices.SortFunc(found, func(a, b process) int { return a.pid - b.pid })
	return slices.Compact(found)
}

// nothingLeft waits at most as long as a reaper has after Tipstaff's death.
func (w *workspace) nothingLeft() {
	w.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := w.left()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.Errorf("processes are left: %v", left)
			end(left)
			return
		}
	}
}

// killCLI kills the CLI and all below it, and neither Tipstaff nor its reaper.
func (w *workspace) killCLI() {
	w.Helper()
	var victims []process
	for _, p := range w.left() {
		if p.reaps() {
			victims = append(victims, below(p.pid)...)
		}
	}
	if len(victims) == 0 {
		w.Fatalf("no reaper has a child: %v", w.left())
	}
	end(victims)
}

// killReaper kills Tipstaff's process between itself and the CLI.
func (w *workspace) killReaper() {
	w.Helper()
	killed := false
	for _, p := range w.left() {
		if p.reaps() {
			w.Check(syscall.Kill(p.pid, syscall.SIGKILL))
			killed = true
		}
	}
	if !killed {
		w.Fatalf("there is no reaper: %v", w.left())
	}
}

// completed is how every case ends that is not cancelled: the task is done, its session
// closed, the run proven, no process left.
func (w *workspace) completed() {
	w.Helper()
	t := w.is("completed")
	if t.Session != "" {
		w.Errorf("the task has the session %s", t.Session)
	}
	w.nothingLeft()
	w.must(0, "verify", t.Run)
	w.must(0, "replay", t.Run)
}
