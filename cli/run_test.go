package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func planFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(name, []byte("kind: plan\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRunInAPipePrintsLines(t *testing.T) {
	b := newBench(t)
	b.svc.start = completes(b.svc)
	b.run(t, 0, "run", planFile(t))
	equal(t, "stdout", b.out.String(), `run  started
root/read  completed  12ms
run  completed  success
run      01JCQ8R4T5V6W7X8Y9Z0A1B2C3
state    completed (success)
outputs  {"n":1}
seq      4
head     sha256:h4
`)
	equal(t, "stderr", b.err.String(), "")
	if got := b.svc.callers[0]; got.Surface != "cli" || got.User != "local" || got.Principal != "local:cli" {
		t.Errorf("called as %+v", got)
	}
}

func TestRunInAPipeHasColorsOnlyWhenForced(t *testing.T) {
	b := newBench(t)
	b.vars["CLICOLOR_FORCE"] = "1"
	b.svc.start = completes(b.svc)
	b.run(t, 0, "run", planFile(t))
	contains(t, "stdout", b.out.String(), "root/read  \x1b[32mcompleted\x1b[0m  12ms\n")
}

func TestRunJSONStreamsStoredRecords(t *testing.T) {
	b := newBench(t)
	b.svc.start = completes(b.svc)
	b.run(t, 0, "run", planFile(t), "--json")
	var want []string
	for _, ev := range b.svc.log {
		want = append(want, string(ev.Raw))
	}
	want = append(want, `{"run_id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","state":"completed","outcome":"success","reason":"","seq":4,"head":"sha256:h4"}`)
	equal(t, "stdout", b.out.String(), strings.Join(want, "\n")+"\n")
	equal(t, "stderr", b.err.String(), "")
}

func TestRunOnATerminalKeepsATree(t *testing.T) {
	b := newBench(t).terminal()
	b.svc.start = completes(b.svc)
	b.run(t, 0, "run", planFile(t))
	var vt vterm
	vt.Write([]byte(b.err.String()))
	contains(t, "terminal", vt.String(), "completed  notes", "✓ root", "  ✓ read  mcp://builtin/read_file@1.0.0  12ms", "  - ok  Publish?")
	contains(t, "stdout", b.out.String(), "run      01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n")
	if strings.Contains(b.out.String(), "root/read") {
		t.Errorf("plain lines beside the tree:\n%s", b.out)
	}
}

func TestRunOnADumbTerminalPrintsLines(t *testing.T) {
	b := newBench(t).terminal()
	b.vars["TERM"] = "dumb"
	b.svc.start = completes(b.svc)
	b.run(t, 0, "run", planFile(t))
	contains(t, "stdout", b.out.String(), "root/read  completed  12ms\n")
	equal(t, "stderr", b.err.String(), "")
}

func TestRunUnattendedParksAndSaysHowToGoOn(t *testing.T) {
	const steps = `waiting: root/ok asks: Publish?
    show: {"notes":"all is well"}
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok approve
  tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok deny
then:
  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3
`
	for name, args := range map[string][]string{"lines": nil, "json": {"--json"}, "flag": {"--unattended"}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.svc.start = asks(b.svc)
			b.run(t, 4, append([]string{"run", planFile(t)}, args...)...)
			equal(t, "stderr", b.err.String(), steps)
		})
	}
}

func TestRunUnattendedFlagAsksNobodyAtATerminal(t *testing.T) {
	b := newBench(t).terminal()
	b.svc.start = func(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		if req.Attended {
			t.Error("someone is asked")
		}
		return asks(b.svc)(ctx, req)
	}
	b.run(t, 4, "run", planFile(t), "--unattended")
}

func TestRunNamesTheWorkspaceInCommands(t *testing.T) {
	b := newBench(t)
	b.svc.start = asks(b.svc)
	b.run(t, 4, "run", planFile(t), "--workspace", "/my work")
	contains(t, "stderr", b.err.String(), "tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 --workspace '/my work'\n")
	if b.opened[0].Workspace != "/my work" || b.opened[0].ReadOnly {
		t.Errorf("opened %+v", b.opened[0])
	}
}

func TestRunFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		driven tipstaff.Driven
		failed *tipstaff.Failure
		exit   int
		reason string
	}{
		{"tool", tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed"},
			&tipstaff.Failure{Reason: "tool_error", Code: "exit_status", Message: "exit status 1", Path: "root/go"}, 1,
			"reason  tool_error (exit_status) at root/go: exit status 1\n"},
		{"bound", tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "bound_exceeded", Bound: "tool_calls"}, nil, 5,
			"reason  bound_exceeded tool_calls\n"},
		{"cancelled", tipstaff.Driven{State: tipstaff.Cancelled, Outcome: "cancelled", Reason: "wrong branch"}, nil, 8, "reason  wrong branch\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
				return b.svc.drives(func() tipstaff.Driven {
					b.svc.set(tipstaff.Run{ID: runA, State: c.driven.State, Error: c.failed})
					return c.driven
				}), nil
			}
			b.run(t, c.exit, "run", planFile(t))
			contains(t, "stdout", b.out.String(), c.reason)
		})
	}
}

func TestRunInterruptedSaysHowToResume(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		b := newBench(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
			return b.svc.drives(func() tipstaff.Driven {
				b.svc.append("run.started", "", `{}`)
				cancel(&SignalError{sig})
				b.svc.append("run.interrupted", "", `{"reason":"signal:X"}`) // after the signal, and yet shown
				b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, HeadSeq: 2})
				return tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted"}
			}), nil
		}
		b.runContext(t, ctx, want, "run", planFile(t))
		contains(t, "stdout", b.out.String(), "run  interrupted  signal:X\n")
		contains(t, "stderr", b.err.String(), "  tipstaff resume 01JCQ8R4T5V6W7X8Y9Z0A1B2C3\n")
	}
}

// What brings a run on is said alike by every command that drives one.
func TestWhatBringsARunOnIsSaidAlike(t *testing.T) {
	for _, outcome := range []string{"parked", "cut"} {
		for _, args := range [][]string{{"run", planFile(t)}, {"chat", "hello"}, {"tools", "call", "mcp://builtin/read_file@1.0.0"}} {
			b := newBench(t)
			b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
				return b.svc.drives(func() tipstaff.Driven {
					child := waitingRun()
					child.ID, child.Title = runB, "the child"
					b.svc.set(child)
					b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Lineage: &tipstaff.Lineage{Children: []tipstaff.ID{runB}}})
					return tipstaff.Driven{State: tipstaff.Executing, Outcome: outcome}
				}), nil
			}
			b.run(t, 4, args...)
			contains(t, outcome+" of "+args[0], b.err.String(), "waiting: root/ok of the child asks: Publish?\n", "then:\n  tipstaff resume "+runA.String()+"\n")
			if strings.Contains(b.err.String(), "interrupted") {
				t.Errorf("%s of %s is called interrupted:\n%s", outcome, args[0], b.err)
			}
		}
	}
}

// Children are of interest only while their run waits.
func TestChildrenOfARunThatEndedAreNotRead(t *testing.T) {
	b := newBench(t)
	b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return b.svc.drives(func() tipstaff.Driven {
			b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, Lineage: &tipstaff.Lineage{Children: []tipstaff.ID{runB}}})
			return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
		}), nil
	}
	b.run(t, 0, "run", planFile(t))
	if slices.Contains(b.svc.got, runB) {
		t.Error("the child was read")
	}
}

func TestRunThatCouldNotBeDriven(t *testing.T) {
	b := newBench(t)
	b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return b.svc.drives(func() tipstaff.Driven {
			b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing})
			return tipstaff.Driven{State: tipstaff.Executing, Err: tipstaff.Errorf(tipstaff.LeaseLost, "another process took the run over")}
		}), nil
	}
	b.run(t, 3, "run", planFile(t))
	contains(t, "stderr", b.err.String(), "error: another process took the run over\n")
}

// brokenPipe takes some writes, then nobody reads any more.
type brokenPipe struct {
	mu   sync.Mutex
	left int
}

func (p *brokenPipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return 0, &os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}
	}
	p.left--
	return len(b), nil
}

func TestClosedPipeLeavesTheRunAlone(t *testing.T) {
	for _, flag := range []string{"--json", "--yes"} {
		b := newBench(t)
		b.env.Stdout = &brokenPipe{left: 1}
		b.svc.start = completes(b.svc)
		b.run(t, 0, "run", planFile(t), flag)
		if len(b.svc.log) != 4 {
			t.Errorf("the run wrote %d records, not 4", len(b.svc.log))
		}
		equal(t, "stderr", b.err.String(), "")
	}
}

func TestClosedPipeEndsReaders(t *testing.T) {
	b := newBench(t)
	b.env.Stdout = &brokenPipe{left: 1}
	for range 3 {
		b.svc.append("plan.step", "root/read", `{}`)
	}
	b.svc.own(true) // following would never end
	b.run(t, 0, "events", runA.String(), "--follow")
	equal(t, "stderr", b.err.String(), "")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	b := newBench(t)
	b.env.Stdout = fullDisk{}
	b.run(t, 1, "version")
	contains(t, "stderr", b.err.String(), "error: no space left on device\n")
}

func TestRunInputs(t *testing.T) {
	dir := t.TempDir()
	inputs := filepath.Join(dir, "inputs.json")
	if err := os.WriteFile(inputs, []byte(`{"a": 1, "b": "from file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.env.Stdin = strings.NewReader("kind: plan\n")
	var got tipstaff.StartRequest
	b.svc.start = func(ctx context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
		got = r
		return completes(b.svc)(ctx, r)
	}
	b.run(t, 0, "run", "-", "--inputs", inputs, "--yes", "--input", "b=2", "--input", "c=notes.md", "--input", `d="3"`,
		"--input", "e=", "--input", "f=x=y", "--input", `g= [1, 2] `)
	want := map[string]string{"a": `1`, "b": `2`, "c": `"notes.md"`, "d": `"3"`, "e": `""`, "f": `"x=y"`, "g": `[1, 2]`}
	if len(got.Inputs) != len(want) {
		t.Errorf("inputs %s", got.Inputs)
	}
	for name, w := range want {
		equal(t, "input "+name, string(got.Inputs[name]), w)
	}
	if got.Name != "stdin" || string(got.Program) != "kind: plan\n" || !got.Yes {
		t.Errorf("request %+v", got)
	}
}

func TestRunRefusesBadInvocations(t *testing.T) {
	plan := planFile(t)
	list := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(list, []byte(`[1]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for message, args := range map[string][]string{
		"tipstaff run needs FILE":                 {"run"},
		`tipstaff run takes no argument "b.yaml"`: {"run", plan, "b.yaml"},
		"there is no file":                        {"run", filepath.Join(t.TempDir(), "none.yaml")},
		`--input "x" has no name and value`:       {"run", plan, "--input", "x"},
		`--input "=x" has no name and value`:      {"run", plan, "--input", "=x"},
		`--input "a=\xff" is not UTF-8`:           {"run", plan, "--input", "a=\xff"},
		"--input a is given twice":                {"run", plan, "--input", "a=1", "--input", "a=2"},
		"is not a JSON object":                    {"run", plan, "--inputs", list},
		"only one of the program, --inputs and --text can come from standard input": {"run", "-", "--inputs", "-"},
		"tipstaff run has no flag --unatended":                                      {"run", plan, "--unatended"},
		"hint: did you mean --unattended?":                                          {"run", plan, "--unatended"},
	} {
		b := newBench(t)
		b.run(t, 2, args...)
		contains(t, "stderr", b.err.String(), message)
		if len(b.opened) > 0 {
			t.Errorf("%v opened the workspace", args)
		}
	}
}

func TestRunReportsEveryProblemOfADocument(t *testing.T) {
	invalid := &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "plan.yaml is not a valid plan", Hint: "fix it", Problems: []tipstaff.Problem{
		{Code: "ref_unknown", File: "plan.yaml", Line: 3, Column: 7, Message: "nothing is called \x1b[31msum", Path: "root/x"},
		{Code: "limit", Message: "too large"},
	}}
	b := newBench(t)
	b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return tipstaff.Started{}, invalid
	}
	b.run(t, 2, "run", planFile(t))
	equal(t, "stderr", b.err.String(), `error: plan.yaml is not a valid plan
plan.yaml:3:7: ref_unknown: nothing is called \u001b[31msum (root/x)
limit: too large
hint: fix it
`)

	b = newBench(t)
	b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return tipstaff.Started{}, invalid
	}
	b.run(t, 2, "run", planFile(t), "--json")
	equal(t, "stdout", b.out.String(), "")
	var got struct {
		Error struct {
			Code, Message, Hint string
			Problems            []tipstaff.Problem
		}
	}
	if err := json.Unmarshal([]byte(b.err.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Error.Code != "invalid_program" || got.Error.Hint != "fix it" || len(got.Error.Problems) != 2 {
		t.Errorf("error object %+v", got)
	}
}

func TestDryRunPrintsTheOutline(t *testing.T) {
	b := newBench(t)
	b.svc.check = func(tipstaff.ValidateRequest) (tipstaff.Validated, error) { return notes(), nil }
	b.run(t, 0, "run", planFile(t), "--dry-run")
	equal(t, "stdout", b.out.String(), `plan notes  sha256:p
root  sequential
  read  tool_call  mcp://builtin/read_file@1.0.0  read
  ok  gate  Publish?
`)
	if !b.opened[0].ReadOnly {
		t.Error("opened for writing")
	}
	b.out.Reset()
	b.run(t, 0, "run", planFile(t), "--dry-run", "--json")
	var got struct {
		Program tipstaff.Program
		Outline tipstaff.Outline
	}
	if err := json.Unmarshal([]byte(b.out.String()), &got); err != nil || got.Program.Digest != "sha256:p" || len(got.Outline.Children) != 2 {
		t.Errorf("%v: %s", err, b.out)
	}
}

func TestRunGoesOnWhenNothingCanBeShown(t *testing.T) {
	b := newBench(t)
	b.svc.start = completes(b.svc)
	b.svc.getErr = tipstaff.Errorf(tipstaff.StoreBusy, "the store is busy")
	b.run(t, 3, "run", planFile(t))
	contains(t, "stdout", b.out.String(), "state  completed (success)\n", "seq    4\n")
	contains(t, "stderr", b.err.String(), "error: the store is busy\n")
}

func TestStartInterruptedBySignal(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	b.svc.start = func(ctx context.Context, _ tipstaff.StartRequest) (tipstaff.Started, error) {
		cancel(&SignalError{syscall.SIGINT})
		<-ctx.Done()
		return tipstaff.Started{}, ctx.Err()
	}
	b.runContext(t, ctx, 130, "run", planFile(t))
}

func TestOpenFailureIsReported(t *testing.T) {
	b := newBench(t)
	b.env.Open = func(context.Context, OpenOptions) (Session, error) {
		return nil, tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "no workspace here").WithHint("give --workspace")
	}
	b.run(t, 2, "ls")
	equal(t, "stderr", b.err.String(), "error: no workspace here\nhint: give --workspace\n")
}

type failsToClose struct{ *bench }

func (f failsToClose) Close() error { f.closed++; return errors.New("cannot close") }

func TestCloseFailureIsReported(t *testing.T) {
	b := newBench(t)
	open := b.env.Open
	b.env.Open = func(ctx context.Context, o OpenOptions) (Session, error) {
		_, err := open(ctx, o)
		return failsToClose{b}, err
	}
	b.run(t, 1, "ls")
	contains(t, "stderr", b.err.String(), "error: cannot close\n")
}
