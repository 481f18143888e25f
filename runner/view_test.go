package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const patient = `
root:
  kind: sequential
  children:
    - {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: late.txt}, retry: {max: 5, backoff: 1s, factor: 1, on: [tool_error]}}
    - {id: ok, kind: gate, question: "Go on?", expires: 96h}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
`

// What a run has been through is in its row and in its records: a retry, two days at a gate,
// an owner that dies.
func TestARunTellsWhatItHasBeenThrough(t *testing.T) {
	b := newBed(t)
	s := b.start(patient)
	for deadline := time.Now().Add(time.Minute); !slices.Contains(b.kinds(s.Run), string(tipstaff.KindEffectFailed)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no attempt has failed")
		}
	}
	b.write("late.txt", "here")
	b.wait(s.Run)
	b.ahead.Store(int64(48 * time.Hour))
	if _, err := b.decide(s.Run, "root/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Acquire(context.Background(), s.Run.String(), flow.Owner{Kind: "foreground", Launch: "gone", Pid: 1}); err != nil {
		t.Fatal(err)
	}
	living := b.get(s.Run).Life
	b.dead["gone"] = true
	dead := b.get(s.Run).Life
	b.check(b.Recover(cli(), "test"))
	b.resume(s.Run)

	kinds := func(l *tipstaff.Life) string {
		var all []string
		for _, s := range l.Segments {
			all = append(all, string(s.Kind))
		}
		return strings.Join(all, " ")
	}
	page, err := b.List(cli(), tipstaff.ListRequest{})
	b.check(err)
	for _, c := range []struct {
		when string
		life *tipstaff.Life
		want string
	}{
		{"while its second owner lives", living, "driven parked driven"},
		{"when that has died, and nobody has said so", dead, "driven parked driven killed"},
		{"at last", b.get(s.Run).Life, "driven parked driven killed driven completed"},
		{"in a list", page.Runs[0].Life, "driven parked driven killed driven completed"},
	} {
		if got := kinds(c.life); got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
	life := page.Runs[0].Life
	if parked := life.Segments[1]; parked.Ms < (47*time.Hour).Milliseconds() || parked.Gates != 1 || life.Drives != 3 || life.Waits != 1 || life.Kills != 1 {
		t.Errorf("%+v", life)
	}

	v := tipstaff.NewView("", s.Outline)
	for _, e := range b.events(s.Run) {
		v.Apply(&e)
	}
	drawn := v.Timeline(tipstaff.TimelineQuery{}, v.At)
	var marks, breaks []string
	for _, m := range drawn.Marks {
		marks = append(marks, m.Kind)
	}
	for _, x := range drawn.Breaks {
		if x.Why != "" {
			breaks = append(breaks, x.Why+strings.Join(x.For, ","))
		}
	}
	if got := strings.Join(breaks, " "); got != "parkok kill" {
		t.Errorf("breaks %s", got)
	}
	for _, want := range []string{tipstaff.MarkPark, tipstaff.MarkKill, tipstaff.MarkEnd} {
		if !slices.Contains(marks, want) {
			t.Errorf("no %s among %v", want, marks)
		}
	}
	rows := v.Rows(v.At)
	if read := rows[1]; read.Name != "read" || read.Attempts < 2 || read.Shown != tipstaff.NodeDone {
		t.Errorf("%+v", read)
	}
	tries := rows[1].Spans()[0].More().Tries
	if len(tries) != rows[1].Attempts-1 || tries[0].Code != "tool_error" || tries[0].Next.Before(tries[0].To) {
		t.Errorf("%+v", tries)
	}
	if bars := drawn.Rows[1].Bars; len(bars) < 3 || bars[0].State != tipstaff.NodeFailed || bars[0].Code != "tool_error" || !bars[1].Wait {
		t.Errorf("%+v", bars)
	}
}
