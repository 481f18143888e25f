package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

func TestNoCommandPrintsHelp(t *testing.T) {
	b := newBench(t)
	b.run(t, 0)
	contains(t, "stdout", b.out.String(), "Usage:", "  decide ", "  completion ")
	if len(b.opened) != 0 {
		t.Error("help opened the workspace")
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, name := range []string{"run", "ls", "show", "export", "events", "watch", "decide", "resume", "cancel", "fork", "verify", "replay", "classify", "serve", "doctor", "backup", "version"} {
		b := newBench(t)
		b.run(t, 0, name, "--help")
		contains(t, name, b.out.String(), "Usage:\n  tipstaff "+name, "Examples:\n  tipstaff "+name, "--json", "--workspace")
		if len(b.opened) != 0 {
			t.Errorf("%s --help opened the workspace", name)
		}
	}
}

func TestUnknownCommandIsInvalid(t *testing.T) {
	b := newBench(t)
	b.run(t, 2, "verfiy", "@")
	equal(t, "stderr", b.err.String(), "error: unknown command \"verfiy\" for tipstaff\nhint: did you mean verify?\n")

	b = newBench(t)
	b.run(t, 2, "frobnicate", "--json")
	contains(t, "stderr", b.err.String(), `{"error":{"code":"invalid_argument"`)

	b = newBench(t)
	b.run(t, 2, "completion", "fish", "--bogus", "--json")
	contains(t, "stderr", b.err.String(), `{"error":{"code":"invalid_argument"`)

	b = newBench(t)
	b.run(t, 2, "completion", "bash", "extra")
	contains(t, "stderr", b.err.String(), "error: ")
}

func TestVersion(t *testing.T) {
	b := newBench(t)
	b.run(t, 0, "version")
	equal(t, "stdout", b.out.String(), `version  1.2.3
commit   abc
date     2026-03-04T23:30:00Z
go       go1.26
system   linux/arm64
formats  journal 1, rules 2, sqlite 3, postgres 4
grpc     a.v1, b.v1
http     5
mcp      2026-02-02, 2026-01-01
`)
	b.out.Reset()
	b.run(t, 0, "version", "--json")
	equal(t, "stdout", b.out.String(), `{"version":"1.2.3","commit":"abc","date":"2026-03-04T23:30:00Z","go":"go1.26","os":"linux","arch":"arm64",`+
		`"formats":{"journal":1,"rules":2,"sqlite":3,"postgres":4},"protocols":{"grpc":["a.v1","b.v1"],"http":"5","mcp":["2026-02-02","2026-01-01"]}}`+"\n")
	b.out.Reset()
	b.env.Version.Modified = true
	b.run(t, 0, "version")
	contains(t, "a build with changes", b.out.String(), "commit   abc, with changes\n")
	if len(b.opened) != 0 {
		t.Error("version opened the workspace")
	}
}

func TestWorkspaceFromEnvironment(t *testing.T) {
	b := newBench(t)
	b.run(t, 0, "ls")
	b.vars["TIPSTAFF_WORKSPACE"] = "/env"
	b.run(t, 0, "ls")
	b.run(t, 0, "ls", "--workspace", "/flag")
	for i, want := range []string{".", "/env", "/flag"} {
		equal(t, "workspace", b.opened[i].Workspace, want)
	}
}

func twoRuns() []tipstaff.Run {
	return []tipstaff.Run{
		{ID: runB, Title: "second \x1b[2Jtitle that is rather long for a terminal", Status: "completed", State: tipstaff.Completed, CreatedAt: epoch},
		waitingRun(),
	}
}

func TestLs(t *testing.T) {
	b := newBench(t)
	b.svc.runs = twoRuns()
	b.run(t, 0, "ls")
	equal(t, "stdout", b.out.String(), `01JCQ8R4T5V6W7X8Y9Z0A1B2D4  2026-11-15 02:30:00  completed     second \u001b[2Jtitle that is rather long for a terminal
01JCQ8R4T5V6W7X8Y9Z0A1B2C3  2026-11-15 02:30:00  awaiting_decision  notes
`)
	if len(b.svc.listed) != 1 || b.svc.listed[0].Limit != 50 || !b.opened[0].ReadOnly {
		t.Errorf("listed %v, opened %v", b.svc.listed, b.opened)
	}
	equal(t, "stderr", b.err.String(), "")
	b.out.Reset()
	b.run(t, 0, "ls", "--limit", "1", "--status", "completed")
	contains(t, "stderr", b.err.String(), "more: tipstaff ls --limit 1 --status completed --before 01JCQ8R4T5V6W7X8Y9Z0A1B2D4\n")
	b.out.Reset()
	b.run(t, 0, "ls", "--limit", "1", "--before", "01JCQ8R4T5V6W7X8Y9Z0A1B2D4")
	contains(t, "the next page", b.out.String(), runA.String())
	for _, args := range [][]string{{"ls", "--limit", "0"}, {"ls", "--before", "@"}, {"ls", "--threads", "--status", "failed"}, {"decide", "--limit", "0"},
		{"decide", "--after", "root/ok"}, {"decide", "--resume"}, {"decide", "@", "root/ok", "approve", "--limit", "3"},
		{"watch", "@", "--timeout", "1s"}, {"watch", "@", "--until", "dawn"}, {"watch", "@", "--until", "end", "--timeout", "90m"}} {
		b.run(t, 2, args...)
	}
	b.out.Reset()
	b.terminal().run(t, 0, "ls")
	for _, l := range strings.Split(strings.TrimSpace(b.out.String()), "\n") {
		if cells(l) > 60 {
			t.Errorf("%d cells on a terminal of 60: %s", cells(l), l)
		}
	}
	b.out.Reset()
	b.env.StdoutTTY = false
	b.run(t, 0, "ls", "--json")
	lines := strings.Split(strings.TrimSpace(b.out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	contains(t, "first line", lines[0], `"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2D4"`, `"open_gates":[]`, `"bounds":{}`)
}

func TestLsOfNothing(t *testing.T) {
	b := newBench(t)
	b.run(t, 0, "ls")
	equal(t, "stdout", b.out.String(), "")
	contains(t, "stderr", b.err.String(), "no runs yet")
	b = newBench(t)
	b.run(t, 0, "ls", "--json")
	equal(t, "stderr", b.err.String(), "")
}

func TestRefs(t *testing.T) {
	for _, c := range []struct {
		ref  string
		exit int
		want string // in stdout or stderr
	}{
		{"@", 0, runB.String()},
		{runA.String(), 0, runA.String()},
		{"01JCQ8R4T5V6W7X8Y9Z0A1B2C", 0, runA.String()},
		{"01JCQ8", 2, "more than one run begins with 01JCQ8"},
		{"02", 3, "no run begins with 02"},
		{"01jcq8", 2, `"01jcq8" names no run`},
		{"", 2, `"" names no run`},
		{"../x", 2, `"../x" names no run`},
		{"01JCQ8R4T5V6W7X8Y9Z0A1B2Z9", 3, "there is no run"},
		{"01JCQ8R4T5V6W7X8Y9Z0A1B2IL", 2, "is not an id"},
		{"01JCQ8R4T5V6W7X8Y9Z0A1B2C3X", 2, "names no run"},
	} {
		b := newBench(t)
		b.svc.runs = twoRuns()
		b.run(t, c.exit, "show", c.ref)
		contains(t, "show "+c.ref, b.out.String()+b.err.String(), c.want)
	}
	b := newBench(t)
	b.run(t, 3, "show", "@")
	contains(t, "stderr", b.err.String(), "error: there is no run yet\nhint: ")
}

func TestShow(t *testing.T) {
	run := waitingRun()
	run.Owner = &tipstaff.Owner{Kind: "foreground", Pid: 7}
	run.Inputs = map[string]json.RawMessage{"file": json.RawMessage(`"a.md"`)}
	run.Bounds = tipstaff.BoundsStatus{"tool_calls": {Limit: 20, Limited: true, Used: 3, Reserved: 1}, "tokens": {Used: 9}}
	run.Lineage = &tipstaff.Lineage{Parent: runB, Relation: "fork", Seq: 12}
	run.Lifecycle = "drafting --[intent.compiled]--> proposed"
	b := newBench(t)
	b.svc.runs = []tipstaff.Run{run}
	b.run(t, 0, "show", "@")
	equal(t, "stdout", b.out.String(), `run        01JCQ8R4T5V6W7X8Y9Z0A1B2C3
program    plan notes
state      executing
status     awaiting_decision
created    2026-11-15T02:30:00Z
owner      foreground, process 7, gone
from       fork of 01JCQ8R4T5V6W7X8Y9Z0A1B2D4 at 12
input      file = "a.md"
bound      tokens 9
bound      tool_calls 3/20 (1 reserved)
lifecycle  drafting --[intent.compiled]--> proposed
seq        3
head       sha256:h3

01JCQ8R4T5V6W7X8Y9Z0A1B2C3  root/ok  question  notes
  Publish?
    show: {"notes":"all is well"}
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok approve
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok deny

then:
  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3
`)
	b.out.Reset()
	b.run(t, 0, "show", "@", "--json")
	var got struct {
		RunID     string `json:"run_id"`
		OpenGates []struct {
			GateID   string `json:"gate_id"`
			Kind     string
			Key      string
			Path     string
			Question string
			Actions  []string
		} `json:"open_gates"`
	}
	if err := json.Unmarshal([]byte(b.out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.RunID != runA.String() || len(got.OpenGates) != 1 || got.OpenGates[0].GateID != gateA.String() || len(got.OpenGates[0].Actions) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestJSONOnATerminalCarriesNoEscapes(t *testing.T) {
	b := newBench(t).terminal()
	run := waitingRun()
	run.Title = "a\u009b2Jb\u202e"
	b.svc.runs = []tipstaff.Run{run}
	b.run(t, 0, "show", "@", "--json")
	var got tipstaff.Run
	if err := json.Unmarshal([]byte(b.out.String()), &got); err != nil || got.Title != run.Title {
		t.Errorf("title %q, error %v", got.Title, err)
	}
	if strings.ContainsAny(b.out.String(), "\u009b\u202e") {
		t.Errorf("%q", b.out)
	}
}

func TestEvents(t *testing.T) {
	b := newBench(t)
	b.svc.append("run.started", "", `{"kind":"foreground"}`)
	b.svc.append("effect.finished", "root/read", `{"ms":12}`)
	b.svc.append("plan.step", "root/read", `{"status":"completed","latency_ms":12}`)
	b.run(t, 0, "events", runA.String(), "--after", "1")
	equal(t, "stdout", b.out.String(), `    2  2026-11-15 02:30:02.000  effect.finished      root/read         {"ms":12}
    3  2026-11-15 02:30:03.000  plan.step            root/read         completed  12ms
`)
	b.out.Reset()
	b.run(t, 0, "events", runA.String(), "--json", "--after", "2")
	equal(t, "stdout", b.out.String(), string(b.svc.log[2].Raw)+"\n")
	b.run(t, 2, "events", runA.String(), "--after", "4")
	b.run(t, 2, "events", runA.String(), "--after", "-1")
	b.run(t, 2, "events", runA.String(), "--after", "x")
}

func TestEventsFollowEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.svc.append("run.started", "", `{}`)
		b.svc.own(true)
		code := make(chan int)
		go func() {
			code <- Main(context.Background(), []string{"events", runA.String(), "--follow", "--json"}, b.env)
		}()
		synctest.Wait()
		b.svc.append("run.parked", "", `{}`)
		b.svc.own(false)
		if c := <-code; c != 0 || strings.Count(b.out.String(), "\n") != 2 {
			t.Errorf("exit code %d\n%s", c, b.out)
		}
	})
}

func TestSignalsEndWatching(t *testing.T) {
	for _, args := range [][]string{{"events", runA.String(), "--follow"}, {"watch", runA.String()}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.svc.runs = []tipstaff.Run{waitingRun()}
			b.svc.append("run.started", "", `{}`)
			b.svc.own(true)
			ctx, cancel := context.WithCancelCause(context.Background())
			code := make(chan int)
			go func() { code <- Main(ctx, args, b.env) }()
			synctest.Wait()
			cancel(&SignalError{syscall.SIGTERM})
			if c := <-code; c != 143 {
				t.Errorf("%v: exit code %d", args, c)
			}
			equal(t, "stderr", b.err.String(), "")
		})
	}
}

func TestWatchFollowsARunOfAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		end  tipstaff.Run
		exit int
		err  string
	}{
		{"completed", tipstaff.Run{ID: runA, State: tipstaff.Completed, Outcome: "success"}, 0, ""},
		{"failed", tipstaff.Run{ID: runA, State: tipstaff.Failed, Error: &tipstaff.Failure{Reason: "tool_error"}}, 1, ""},
		{"bound", tipstaff.Run{ID: runA, State: tipstaff.Failed, Error: &tipstaff.Failure{Reason: "bound_exceeded"}}, 5, ""},
		{"cancelled", tipstaff.Run{ID: runA, State: tipstaff.Cancelled}, 8, ""},
		{"waiting", waitingRun(), 4, "tipstaff decide"},
		{"interrupted", tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Interrupted}, 4, "  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.svc.runs = []tipstaff.Run{{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running}}
				b.svc.append("run.started", "", `{}`)
				b.svc.own(true)
				code := make(chan int)
				go func() { code <- Main(context.Background(), []string{"watch", "@"}, b.env) }()
				synctest.Wait()
				contains(t, "while it runs", b.out.String(), "run  started\n")
				b.svc.append("plan.step", "root/read", `{"status":"completed"}`)
				b.svc.set(c.end)
				b.svc.own(false)
				if got := <-code; got != c.exit {
					t.Errorf("exit code %d, want %d", got, c.exit)
				}
				contains(t, "stdout", b.out.String(), "root/read  completed\n", "state")
				contains(t, "stderr", b.err.String(), c.err)
			})
		})
	}
}

func TestLiveViewMovesWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t).terminal()
		b.svc.runs = []tipstaff.Run{{ID: runA, State: tipstaff.Completed, Program: tipstaff.Program{Name: "notes"}}}
		ev := record(1, "run.started", "", `{}`)
		ev.At = time.Now()
		b.svc.log = append(b.svc.log, ev)
		b.svc.own(true)
		code := make(chan int)
		go func() { code <- Main(context.Background(), []string{"watch", "@"}, b.env) }()
		time.Sleep(3*time.Second + frameTime/2) // fake time: a frame was painted at 3s
		synctest.Wait()
		var vt vterm
		vt.Write([]byte(b.err.String()))
		equal(t, "terminal", vt.String(), "running  notes  3.0s  01JCQ8R4T5V6W7X8Y9Z0A1B2C3\nwall_time 3.0s")
		b.svc.own(false)
		if c := <-code; c != 0 {
			t.Errorf("exit code %d", c)
		}
	})
}

func TestResume(t *testing.T) {
	b := newBench(t)
	b.svc.runs = []tipstaff.Run{waitingRun()}
	b.svc.append("run.started", "", `{}`)
	b.svc.append("plan.step", "root/read", `{"status":"completed"}`)
	b.svc.append("run.parked", "", `{}`)
	b.svc.resume = func(_ context.Context, r tipstaff.ResumeRequest) (tipstaff.Started, error) {
		if r.Run != runA || !r.Yes || r.Attended {
			t.Errorf("request %+v", r)
		}
		return b.svc.drives(func() tipstaff.Driven {
			b.svc.append("run.resumed", "", `{}`)
			b.svc.append("intent.attest", "", `{"outcome":"success"}`)
			b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: 5})
			return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
		}), nil
	}
	b.run(t, 0, "resume", "@", "--yes")
	if out := b.out.String(); !strings.HasPrefix(out, "run  resumed\nrun  completed  success\nrun    01J") {
		t.Errorf("history is printed again, or nothing new:\n%s", out)
	}
}

func TestResumeOnATerminalShowsWhatWasDoneBefore(t *testing.T) {
	b := newBench(t).terminal()
	b.svc.runs = []tipstaff.Run{waitingRun()}
	b.svc.append("run.started", "", `{}`)
	b.svc.append("plan.step", "root/read", `{"status":"completed"}`)
	b.svc.append("run.parked", "", `{}`)
	b.svc.resume = func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error) {
		return b.svc.drives(func() tipstaff.Driven {
			b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed})
			return tipstaff.Driven{State: tipstaff.Completed}
		}), nil
	}
	b.run(t, 0, "resume", "@")
	contains(t, "stderr", b.err.String(), "✓ read")
}

func TestResumeRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		d    tipstaff.Driven
		exit int
	}{
		{"ended", tipstaff.Errorf(tipstaff.RunEnded, "the run has ended"), tipstaff.Driven{}, 3},
		{"busy", tipstaff.Errorf(tipstaff.Busy, "process 7 drives it"), tipstaff.Driven{}, 3},
		{"nothing decided", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked"}, 4},
		{"replay mismatch", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "replay_mismatch"}, 3},
	} {
		b := newBench(t)
		b.svc.runs = []tipstaff.Run{waitingRun()}
		b.svc.resume = func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error) {
			if c.err != nil {
				return tipstaff.Started{}, c.err
			}
			return b.svc.drives(func() tipstaff.Driven { return c.d }), nil
		}
		b.run(t, c.exit, "resume", "@", "--unattended")
	}
}

func TestDecide(t *testing.T) {
	b := newBench(t)
	after := waitingRun()
	after.OpenGates = nil
	after.Status = "awaiting_resume"
	var got tipstaff.DecideRequest
	b.svc.runs = []tipstaff.Run{waitingRun()}
	b.svc.decide = func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
		got = r
		return tipstaff.Decided{
			Decision: tipstaff.Decision{Action: "approve", Path: "root/ok"}, Raw: json.RawMessage(`{"action":"approve","schema":1}`), Run: after,
		}, nil
	}
	b.run(t, 0, "decide", "@", "root/ok", "approve", "--note", "fine", "--feedback", "go", "--answer", `{"n":1}`)
	if got.Run != runA || got.Gate != "root/ok" || got.Action != "approve" || got.Note != "fine" || got.Feedback != "go" || string(got.Answer) != `{"n":1}` {
		t.Errorf("request %+v", got)
	}
	equal(t, "stdout", b.out.String(), "decided root/ok: approve\n")
	equal(t, "stderr", b.err.String(), "to go on:\n  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n")
	b.out.Reset()
	b.run(t, 0, "decide", "@", "root/ok", "approve", "--json")
	equal(t, "stdout", b.out.String(), `{"action":"approve","schema":1}`+"\n")
	if got.Answer != nil {
		t.Errorf("answer %s where none was given", got.Answer)
	}
}

func TestDecideRefusals(t *testing.T) {
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"@", "root/ok", "deny"}, 3, "error: it was decided otherwise\n"},
		{[]string{"@", "root/ok"}, 2, "tipstaff decide needs ACTION"},
		{[]string{"@"}, 2, "tipstaff decide needs GATE and ACTION"},
		{[]string{"--note", "x"}, 2, "--note needs RUN, GATE and ACTION"},
		{[]string{"@", "root/ok", "deny", "--answer", "yes"}, 2, "--answer is not JSON"},
	} {
		b := newBench(t)
		b.svc.runs = []tipstaff.Run{waitingRun()}
		b.svc.decide = func(tipstaff.DecideRequest) (tipstaff.Decided, error) {
			return tipstaff.Decided{}, tipstaff.Errorf(tipstaff.DecisionConflict, "it was decided otherwise")
		}
		b.run(t, c.exit, append([]string{"decide"}, c.args...)...)
		contains(t, "stderr", b.err.String(), c.want)
	}
}

func TestDecideListsWhatIsPending(t *testing.T) {
	younger, older := waitingRun(), waitingRun()
	younger.ID = runB
	younger.OpenGates = []tipstaff.Gate{{
		ID: gateA, Kind: tipstaff.InDoubt, Key: "root/go/in_doubt", Path: "root/go", Question: "Was it \x1b[31mdone?", Actions: []string{"retry", "use_result"}, OpenedAt: epoch.Add(time.Hour),
	}}
	b := newBench(t)
	b.svc.runs = []tipstaff.Run{younger, older}
	b.run(t, 0, "decide")
	equal(t, "stdout", b.out.String(), `
01JCQ8R4T5V6W7X8Y9Z0A1B2C3  root/ok  question  notes
  Publish?
    show: {"notes":"all is well"}
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok approve
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok deny

01JCQ8R4T5V6W7X8Y9Z0A1B2D4  root/go/in_doubt  in_doubt  notes
  Was it \u001b[31mdone?
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2D4 root/go/in_doubt retry
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2D4 root/go/in_doubt use_result --answer JSON
`)
	b.out.Reset()
	b.run(t, 0, "decide", "--json")
	lines := strings.Split(strings.TrimSpace(b.out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	contains(t, "first line", lines[0], `"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3"`, `"gate_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2G1"`, `"key":"root/ok"`)

	b = newBench(t)
	b.run(t, 0, "decide")
	equal(t, "stderr", b.err.String(), "nothing waits for a decision\n")
}

func TestHostileGateKeysAreNamedById(t *testing.T) {
	run := waitingRun()
	run.OpenGates[0].Key = "root/\x1b[2J"
	run.OpenGates[0].Actions = []string{"$(reboot)"}
	b := newBench(t)
	b.svc.runs = []tipstaff.Run{run}
	b.run(t, 0, "decide")
	contains(t, "stdout", b.out.String(), "tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 01JCQ8R4T5V6W7X8Y9Z0A1B2G1 '$(reboot)'\n")
	if strings.Contains(b.out.String(), "\x1b") {
		t.Errorf("%q", b.out)
	}
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		state tipstaff.State
		exit  int
		out   string
		err   string
	}{
		{tipstaff.Cancelled, 0, "cancelled 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n", ""},
		{tipstaff.Executing, 0, "asked 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 to cancel; it has not settled yet\n", "to see it end:\n  tipstaff watch 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n"},
		{tipstaff.Completed, 3, "", "error: run 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 was not cancelled: it completed first\n"},
	} {
		b := newBench(t)
		b.svc.cancel = func(r tipstaff.CancelRequest) (tipstaff.Run, error) {
			if r.Run != runA || r.Reason != "wrong" {
				t.Errorf("request %+v", r)
			}
			return tipstaff.Run{ID: runA, State: c.state}, nil
		}
		b.run(t, c.exit, "cancel", runA.String(), "--reason", "wrong")
		equal(t, "stdout", b.out.String(), c.out)
		equal(t, "stderr", b.err.String(), c.err)
	}
}

func TestFork(t *testing.T) {
	b := newBench(t)
	b.svc.fork = func(r tipstaff.ForkRequest) (tipstaff.Run, error) {
		if r.Run != runA || r.At != 12 {
			t.Errorf("request %+v", r)
		}
		return tipstaff.Run{ID: runB, Lineage: &tipstaff.Lineage{Parent: runA, Relation: "fork", Seq: 12}}, nil
	}
	b.run(t, 0, "fork", runA.String(), "--at", "12")
	equal(t, "stdout", b.out.String(), "run   01JCQ8R4T5V6W7X8Y9Z0A1B2D4\nfrom  fork of 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 at 12\n")
	contains(t, "stderr", b.err.String(), "  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2D4\n")
	b.out.Reset()
	b.run(t, 0, "fork", runA.String(), "--at", "12", "--json")
	contains(t, "stdout", b.out.String(), `{"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2D4"`)
	b.run(t, 2, "fork", runA.String(), "--at", "0")
}

func goodReport() tipstaff.Report {
	return tipstaff.Report{
		Run: runA, Seq: 25, Head: "sha256:h", Envelopes: 9, State: tipstaff.Completed, Lifecycle: "drafting --[intent.compiled]--> proposed",
		Integrity: tipstaff.Finding{OK: true}, Conformance: tipstaff.Finding{OK: true}, Outcome: "completed",
	}
}

func TestVerify(t *testing.T) {
	b := newBench(t)
	report := goodReport()
	b.svc.verify = func(r tipstaff.VerifyRequest) (tipstaff.Report, error) {
		if r.Run != runA || !r.Open || r.Dir != "" {
			t.Errorf("request %+v", r)
		}
		return report, nil
	}
	b.run(t, 0, "verify", runA.String(), "--open")
	equal(t, "stdout", b.out.String(), `run        01JCQ8R4T5V6W7X8Y9Z0A1B2C3
records    25, 9 of them signed
head       sha256:h
state      completed
lifecycle  drafting --[intent.compiled]--> proposed
integrity: ok
conformance: ok
`)
	b.out.Reset()
	report.Conformance = tipstaff.Finding{Problems: []tipstaff.Problem{{Code: "step_missing", Seq: 7, Path: "root/go", Message: "not asked for"}}, Total: 3}
	b.run(t, 7, "verify", runA.String(), "--open")
	contains(t, "stdout", b.out.String(), "conformance: 3 problems\n  seq 7: step_missing: not asked for (root/go)\n  and 2 more\n")
	b.out.Reset()
	report.Integrity = tipstaff.Finding{Problems: []tipstaff.Problem{{Code: "gap", Seq: 8, Message: "record 8 is missing"}}, Total: 1}
	b.run(t, 6, "verify", runA.String(), "--open")
	contains(t, "stdout", b.out.String(), "integrity: 1 problem\n  seq 8: gap: record 8 is missing\n")
	b.out.Reset()
	b.run(t, 6, "verify", runA.String(), "--open", "--json")
	var got tipstaff.Report
	if err := json.Unmarshal([]byte(b.out.String()), &got); err != nil || got.Integrity.Problems[0].Code != "gap" {
		t.Errorf("%v: %s", err, b.out)
	}
}

func TestVerifyOfAFolder(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "alice.pub")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.svc.verify = func(r tipstaff.VerifyRequest) (tipstaff.Report, error) {
		if !r.Run.IsZero() || r.Dir != dir || len(r.Keys) != 1 || r.Keys[0] != key {
			t.Errorf("request %+v", r)
		}
		return goodReport(), nil
	}
	b.run(t, 0, "verify", dir, "--key", key)
	b.run(t, 2, "verify", dir, "--key", filepath.Join(dir, "none.pub"))
	b.run(t, 2, "verify", filepath.Join(dir, "none"))
	b.run(t, 2, "verify", key) // a file
}

func TestFoldersThatLookLikeRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("01JCQ8", 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.svc.runs = []tipstaff.Run{waitingRun()}
	var got tipstaff.VerifyRequest
	b.svc.verify = func(r tipstaff.VerifyRequest) (tipstaff.Report, error) { got = r; return goodReport(), nil }
	b.run(t, 0, "verify", "01JCQ8")
	if got.Run != runA || got.Dir != "" {
		t.Errorf("a run's prefix was taken for a folder: %+v", got)
	}
	b.run(t, 0, "verify", "./01JCQ8")
	if !got.Run.IsZero() || filepath.Base(got.Dir) != "01JCQ8" || !filepath.IsAbs(got.Dir) {
		t.Errorf("a folder was taken for a run: %+v", got)
	}
}

func TestReplay(t *testing.T) {
	b := newBench(t)
	report := goodReport()
	records := []tipstaff.Event{record(7, "effect.finished", "root/read", `{"ms":1}`), record(8, "plan.step", "root/read", `{"status":"completed"}`)}
	b.svc.verify = func(r tipstaff.VerifyRequest) (tipstaff.Report, error) {
		if !r.Open || !r.Replay {
			t.Errorf("asked for %+v", r)
		}
		report.Replayed = records
		return report, nil
	}
	b.run(t, 0, "replay", runA.String())
	equal(t, "stdout", b.out.String(), `    7  2026-11-15 02:30:07.000  effect.finished      root/read         {"ms":1}
    8  2026-11-15 02:30:08.000  plan.step            root/read         completed
outcome: completed
`)
	b.out.Reset()
	b.run(t, 0, "replay", runA.String(), "--json")
	if out := b.out.String(); !strings.HasPrefix(out, string(records[0].Raw)+"\n"+string(records[1].Raw)+"\n"+`{"run_id":`) {
		t.Errorf("stdout:\n%s", out)
	}
	report.Conformance = tipstaff.Finding{Problems: []tipstaff.Problem{{Code: "extra", Seq: 8, Message: "nobody asked for it"}}, Total: 1}
	b.run(t, 7, "replay", runA.String())
	contains(t, "stdout", b.out.String(), "conformance: 1 problem\n  seq 8: extra: nobody asked for it\n")
}

func TestExport(t *testing.T) {
	b := newBench(t)
	var gotDir string
	b.env.Export = func(_ context.Context, svc tipstaff.Service, id tipstaff.ID, dir string) error {
		if svc != b.svc || id != runA {
			t.Errorf("exports %v", id)
		}
		gotDir = dir
		return nil
	}
	b.run(t, 0, "export", runA.String(), "./out")
	equal(t, "dir", gotDir, "./out")
	equal(t, "stdout", b.out.String(), "exported 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 to ./out\n")
	b.out.Reset()
	b.run(t, 0, "export", runA.String(), "./out", "--json")
	equal(t, "stdout", b.out.String(), `{"dir":"./out","run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3"}`+"\n")
	b.env.Export = func(context.Context, tipstaff.Service, tipstaff.ID, string) error { return errors.New("disk full") }
	b.run(t, 1, "export", runA.String(), "./out")
	b.run(t, 2, "export", runA.String())
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		want  []string
		avoid string
	}{
		{"commands", []string{"ver"}, []string{"verify", "version"}, "run\t"},
		{"runs", []string{"show", ""}, []string{"01JCQ8R4T5V6W7X8Y9Z0A1B2D4\tcompleted second", "01JCQ8R4T5V6W7X8Y9Z0A1B2C3\tawaiting_decision notes"}, ""},
		{"runs by prefix", []string{"show", "01JCQ8R4T5V6W7X8Y9Z0A1B2C"}, []string{runA.String()}, runB.String()},
		{"gates", []string{"decide", runA.String(), ""}, []string{"root/ok\tPublish?"}, ""},
		{"actions", []string{"decide", runA.String(), "root/ok", ""}, []string{"approve\n", "deny\n"}, ""},
		{"nothing after RUN", []string{"show", runA.String(), ""}, nil, "01JCQ8"},
		{"hostile prefix", []string{"show", "../"}, nil, "01JCQ8"},
	} {
		b := newBench(t)
		b.svc.runs = twoRuns()
		b.run(t, 0, append([]string{"__complete"}, c.args...)...)
		contains(t, c.name, b.out.String(), c.want...)
		if c.avoid != "" && strings.Contains(b.out.String(), c.avoid) {
			t.Errorf("%s offers %q:\n%s", c.name, c.avoid, b.out)
		}
	}
	b := newBench(t)
	b.run(t, 0, "completion", "bash")
	contains(t, "script", b.out.String(), "__start_tipstaff")
	if len(b.opened) != 0 {
		t.Error("the script opened the workspace")
	}
	b = newBench(t)
	b.env.Open = func(context.Context, OpenOptions) (Session, error) { return nil, errors.New("no store") }
	b.run(t, 0, "__complete", "show", "")
	if strings.Contains(b.out.String()+b.err.String(), "no store") {
		t.Errorf("completion complains:\n%s%s", b.out, b.err)
	}
}

// Completion is about the runs that the command would be about.
func TestCompletionOfAServer(t *testing.T) {
	for _, c := range []struct {
		env, want string
		args      []string
	}{
		{"127.0.0.1:1", "127.0.0.1:1", []string{"show", ""}},
		{"", "127.0.0.1:2", []string{"show", "--server", "127.0.0.1:2", ""}},
		{"127.0.0.1:1", "127.0.0.1:2", []string{"decide", "--server=127.0.0.1:2", ""}},
	} {
		b := newBench(t).served()
		b.vars["TIPSTAFF_SERVER"] = c.env
		b.svc.runs = twoRuns()
		connect := b.env.Connect
		b.env.Connect = func(ctx context.Context, server, workspace string) (Session, error) {
			equal(t, "server", server, c.want)
			return connect(ctx, server, workspace)
		}
		b.run(t, 0, append([]string{"__complete"}, c.args...)...)
		contains(t, strings.Join(c.args, " "), b.out.String(), runA.String())
	}
	b := newBench(t).served()
	b.env.Skills = func(OpenOptions) (tipstaff.Skills, error) {
		t.Error("skills of this machine are offered for a plan that is drafted at a server")
		return nil, errors.New("not here")
	}
	b.run(t, 0, "__complete", "do", "--skill", "")
	// What is about a workspace of this machine stays so, whatever the environment names.
	b = newBench(t)
	b.vars["TIPSTAFF_SERVER"] = "127.0.0.1:1"
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "__complete", "memory", "show", "cortex://f")
	contains(t, "stdout", b.out.String(), itemA)
}

// silentServer never answers.
type silentServer struct{ tipstaff.Service }

func (silentServer) List(ctx context.Context, _ tipstaff.ListRequest) (tipstaff.RunPage, error) {
	<-ctx.Done()
	return tipstaff.RunPage{}, ctx.Err()
}

type silentSession struct{ *bench }

func (silentSession) Service() tipstaff.Service { return silentServer{} }

func TestCompletionDoesNotWaitForADeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t).served()
		connect := b.env.Connect
		b.env.Connect = func(ctx context.Context, server, workspace string) (Session, error) {
			_, err := connect(ctx, server, workspace)
			return silentSession{b}, err
		}
		begin := time.Now()
		b.run(t, 0, "__complete", "show", "")
		if waited := time.Since(begin); waited > time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func FuzzRef(f *testing.F) {
	for _, s := range []string{"@", "", "01JCQ8", runA.String(), "../x", "01jcq8", "8", "\x00", strings.Repeat("0", 26), strings.Repeat("0", 27)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		svc := &fakeService{runs: twoRuns()}
		id, err := resolve(context.Background(), svc, ref)
		if err != nil {
			if code := exitCode(err); code != 2 && code != 3 {
				t.Fatalf("%q: %v exits %d", ref, err, code)
			}
			return
		}
		if ref != "@" && !strings.HasPrefix(id.String(), ref) {
			t.Fatalf("%q found %s", ref, id)
		}
	})
}

func FuzzInputValue(f *testing.F) {
	for _, s := range []string{"", "3", `"3"`, "{", "notes.md", " [1] ", "null", "1e999", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := tipstaff.TypedValue(text)
		if json.Valid([]byte(text)) {
			if string(got) != strings.Trim(text, " \t\r\n") {
				t.Fatalf("JSON %q became %s", text, got)
			}
			return
		}
		var s string
		if err := json.Unmarshal(got, &s); err != nil || utf8.ValidString(text) && s != text {
			t.Fatalf("%q became %q, %v", text, s, err)
		}
	})
}

func TestBackup(t *testing.T) {
	b := newBench(t)
	b.env.Backup = func(_ context.Context, workspace, dest string) (tipstaff.Backup, error) {
		equal(t, "workspace", workspace, "/ws")
		return tipstaff.Backup{Dir: dest, Runs: 1, Records: 7, Blobs: 2, Missing: 1, Files: []string{"tipstaff.yaml"}}, nil
	}
	b.run(t, 0, "backup", "copy", "--workspace", "/ws")
	equal(t, "stdout", b.out.String(), "copied 1 run with 7 records, 2 blobs, the keys, tipstaff.yaml to copy\n")
	contains(t, "stderr", b.err.String(), "1 blob missing", "private keys")
	b.out.Reset()
	b.run(t, 0, "backup", "copy", "--workspace", "/ws", "--json")
	equal(t, "stdout", b.out.String(), `{"dir":"copy","runs":1,"records":7,"blobs":2,"missing_blobs":1,"files":["tipstaff.yaml"]}`+"\n")
	b.run(t, 2, "backup")
	if len(b.opened) != 0 {
		t.Error("a backup opened the workspace to write")
	}
}

func TestDoctor(t *testing.T) {
	b := newBench(t)
	var found []tipstaff.Diagnostic
	b.env.Doctor = func(_ context.Context, o OpenOptions) ([]tipstaff.Diagnostic, error) {
		equal(t, "workspace", o.Workspace, "/ws")
		return found, nil
	}
	b.run(t, 0, "doctor", "--workspace", "/ws")
	equal(t, "stdout", b.out.String(), "")
	contains(t, "stderr", b.err.String(), "nothing is wrong with /ws")
	found = []tipstaff.Diagnostic{
		{Severity: "warning", Code: "permissions", Where: "/ws/.tipstaff", Message: "others can \x1b[2Jsee it", Remedy: "chmod 700 /ws/.tipstaff"},
		{Severity: "error", Code: "database_damaged", Where: "/ws/.tipstaff/tipstaff.db", Message: "page 7", Remedy: "restore it"},
	}
	b.run(t, 1, "doctor", "--workspace", "/ws")
	equal(t, "stdout", b.out.String(), `error: database_damaged: /ws/.tipstaff/tipstaff.db: page 7; remedy: restore it
warning: permissions: /ws/.tipstaff: others can \u001b[2Jsee it; remedy: chmod 700 /ws/.tipstaff
`)
	b.out.Reset()
	b.run(t, 1, "doctor", "--workspace", "/ws", "--json")
	equal(t, "stdout", b.out.String(), `{"severity":"error","code":"database_damaged","where":"/ws/.tipstaff/tipstaff.db","message":"page 7","remedy":"restore it"}
{"severity":"warning","code":"permissions","where":"/ws/.tipstaff","message":"others can \u001b[2Jsee it","remedy":"chmod 700 /ws/.tipstaff"}
`)
	b.run(t, 2, "doctor", "now")
}
