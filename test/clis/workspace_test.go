//go:build linux

package clis

import (
	"cmp"
	"encoding/json"
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
	cli  cli
	api  *api.Server
	task string // its id
}

// worker is what the manifest says of w; rules are the policy's, as YAML.
type worker struct {
	posture posture
	review  string // "": none
	rules   string
	idle    string // limit; "": long
	task    string // what it is to do; "": [description]
}

// The longest that a command may take, and limits of the worker: of an invocation whose
// cost the CLI does not tell, all that it may cost is charged.
const (
	commandPatience = 4 * time.Minute
	wall, idle      = "200s", "120s"
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
	config["posture"] = spec.posture
	config["limits"] = map[string]string{"wall": wall, "idle": cmp.Or(spec.idle, idle), "grace": "5s", "cost_usd": cost}
	w.Env = append(c.passed(w), "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost")
	w.Write("repo/tipstaff.yaml", "version: 1\nworkers: "+quoted(map[string]any{"w": config})+"\npolicy:\n  rules: ["+spec.rules+"]\n")
	w.Write("repo/README", "a repository\n")
	w.Write("repo/task.md", cmp.Or(spec.task, description)+"\n")
	w.Write("repo/.gitignore", ".tipstaff/\n")
	w.git("init", "-q")
	w.git("add", "-A")
	w.git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "begin")
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

// kinds counts the records of the run by kind.
func (w *workspace) kinds() map[string]int {
	w.Helper()
	kinds := map[string]int{}
	for line := range strings.Lines(w.must(0, "events", w.show().Run, "--json").Out) {
		var r struct{ Kind string }
		w.Check(json.Unmarshal([]byte(line), &r))
		kinds[r.Kind]++
	}
	return kinds
}

// worktree is a file of the run's worktree, or of what was delivered of it.
func (w *workspace) worktree(name string) string {
	w.Helper()
	found, err := filepath.Glob(w.Path(".local/state/tipstaff/worktrees/*", name))
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
