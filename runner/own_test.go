package runner_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// processOf is a context in which a process of runs asks, as the command line does.
func processOf(runs ...string) context.Context {
	return tipstaff.Within(cli(), func() []string { return slices.Clone(runs) })
}

// once is a plan with a call that asks wherever nobody has accepted it who may decide.
const once = `
root: {id: touch, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: ["true"]}}`

func TestAProcessOfARunDecidesNothing(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	other, _ := b.run(gated)
	for who, own := range map[string]context.Context{"of a run": processOf(run.String()), "of one that cannot be told": processOf("")} {
		for name, do := range map[string]func() error{
			"its own gate": func() error {
				_, err := b.Decide(own, tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve"})
				return err
			},
			"another's gate": func() error {
				_, err := b.Decide(own, tipstaff.DecideRequest{Run: other, Gate: "root/ok", Action: "approve"})
				return err
			},
			"gates in advance": func() error {
				_, err := b.Start(own, tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\n" + gated), Presence: tipstaff.Presence{Yes: true}})
				return err
			},
			"bounds of a fork": func() error {
				_, err := b.Runner.Fork(own, tipstaff.ForkRequest{Run: other, Changes: tipstaff.Changes{Raise: map[string]int64{"tool_calls": 5}}})
				return err
			},
		} {
			if err := do(); tipstaff.CodeOf(err) != tipstaff.OwnRun {
				t.Errorf("a process %s decides %s: %v", who, name, err)
			}
		}
	}
	if _, err := b.Get(processOf(run.String()), run); err != nil {
		t.Errorf("it may look: %v", err)
	}
	if _, err := b.decide(other, "root/ok", "approve"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

func TestWhatAProcessOfARunStartsAsks(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", "allowed_effects: [once]\nservers:\n  builtin: {programs: [\"true\"], tools: {exec: {effect: once}}}\n")
	run, _ := b.run(gated)
	for name, c := range map[string]struct {
		ctx  context.Context
		asks bool
	}{"by a process of a run": {processOf(run.String()), true}, "by a person": {cli(), false}} {
		started, err := b.Start(c.ctx, tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\n" + once)})
		b.check(err)
		out, err := b.Wait(cli(), started.Run)
		b.check(err)
		if out.Waits() != c.asks {
			t.Errorf("%s: %+v", name, out)
		}
		b.verified(started.Run)
	}
}

// The run of the process is recorded, and what comes of it is not for it to act on.
func TestWhatAProcessOfARunHasCausedIsItsOwn(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	other, _ := b.run(gated)
	done, _ := b.run(`root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
	own := processOf(run.String())
	start := func(ctx context.Context) tipstaff.ID {
		started, err := b.Start(ctx, tipstaff.StartRequest{Name: "p", Program: []byte("kind: plan\nversion: 1\n" + gated)})
		b.check(err)
		_, err = b.Wait(cli(), started.Run)
		b.check(err)
		return started.Run
	}
	fork := func(ctx context.Context, of tipstaff.ID) tipstaff.ID {
		forked, err := b.Runner.Fork(ctx, tipstaff.ForkRequest{Run: of})
		b.check(err)
		return forked.Run.ID
	}
	started := start(own)
	if got := tipstaff.BodyOf[tipstaff.IntentDraft](&b.events(started)[0]).Within; !slices.Equal(got, []string{run.String()}) {
		t.Errorf("recorded is %q", got)
	}
	for name, its := range map[string]tipstaff.ID{
		"itself": run, "what it has started": started, "what that has started": start(processOf(started.String())),
		"its fork": fork(cli(), run), "a fork by it of another": fork(own, done), "a fork of what it has started": fork(cli(), started),
	} {
		_, err := b.Cancel(own, tipstaff.CancelRequest{Run: its})
		if tipstaff.CodeOf(err) != tipstaff.OwnRun {
			t.Errorf("%s is cancelled: %v", name, err)
		}
		if _, err = b.Resume(own, tipstaff.ResumeRequest{Run: its}); tipstaff.CodeOf(err) != tipstaff.OwnRun {
			t.Errorf("%s is resumed: %v", name, err)
		}
		b.verified(its)
	}
	if _, err := b.Runner.Fork(own, tipstaff.ForkRequest{Run: run}); tipstaff.CodeOf(err) != tipstaff.OwnRun {
		t.Errorf("a fork past its open gate: %v", err)
	}
	if _, err := b.Cancel(processOf(started.String()), tipstaff.CancelRequest{Run: run}); tipstaff.CodeOf(err) != tipstaff.OwnRun {
		t.Errorf("what it has started cancels it: %v", err)
	}
	if _, err := b.Cancel(own, tipstaff.CancelRequest{Run: other}); err != nil {
		t.Errorf("another run: %v", err)
	}
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: started}); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// A process belongs to runs of this store alone.
func TestWhichRunsAProcessBelongsTo(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	elsewhere := "01J00000000000000000000000"
	nobody := func(flow.Owner) bool { return false }
	for name, c := range map[string]struct {
		said    []string
		certain bool
		want    []string
	}{
		"none":            {nil, false, nil},
		"another store's": {[]string{elsewhere}, true, nil},
		"some of it":      {[]string{elsewhere, run.String()}, false, []string{run.String()}},
	} {
		if got := b.Runner.Within(cli(), c.said, c.certain, nobody); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	asked := false
	_, out := b.run(gated, b.attended(func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) {
		asked = true
		owners, err := b.Runner.Owners(cli())
		if err != nil || len(owners) != 1 || owners[0].Launch == "" {
			t.Errorf("the owners are %+v, %v", owners, err)
		}
		driven := b.Runner.Within(cli(), nil, false, func(o flow.Owner) bool { return slices.Contains(owners, o) })
		if len(driven) != 1 || driven[0] == run.String() {
			t.Errorf("below an owner of no known run: %q", driven)
		}
		return tipstaff.Choice{}, false
	}))
	if !asked || out.Outcome != "parked" {
		t.Errorf("%+v, asked: %v", out, asked)
	}
}
