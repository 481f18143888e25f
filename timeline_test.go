package tipstaff

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// eventful is a run with all that a timeline shows: a retry, a wait of two days, a kill in
// the middle of a call, a person's word on it, a correction, a refused call.
const eventful = `
	10s run.started - 1 {}
	10s effect.intended root/a 1 {"name":"tool.call","class":"read","attempt":1,"reserve":{"tool_calls":1,"cost_usd":5}}
	20s effect.failed root/a 1 {"name":"tool.call","attempt":1,"error":{"code":"timeout"},"ms":10000,"retry_at":"2026-11-15T10:00:30Z","use":{"cost_usd":2}}
	30s effect.intended root/a 1 {"name":"tool.call","class":"read","attempt":2,"reserve":{"cost_usd":5}}
	40s effect.finished root/a 1 {"name":"tool.call","attempt":2,"ms":10000,"use":{"cost_usd":3}}
	40s plan.step root/a 1 {"node":"a","status":"completed"}
	40s policy.gate root/ok 0 {"gate":"G1","gate_kind":"question","question":"Go on?","actions":["approve","deny"]}
	40s run.parked - 1 {"gates":["G1"]}
	172840s policy.gate.resolve root/ok 0 {"gate":"G1","action":"approve","via":"command"}
	172840s run.resumed - 2 {}
	172840s gate.taken root/ok 2 {"gate":"G1","seq":13}
	172840s plan.step root/ok 2 {"node":"ok","status":"completed"}
	172840s effect.intended root/b 2 {"name":"tool.call","class":"once","attempt":1}
	172850s plan.output root/b 2 {"channel":"stdout","n":1,"chunk":"x"}
	173030s run.interrupted - 0 {"reason":"owner_died","found_by":"tipstaff[7]"}
	173050s run.resumed - 3 {}
	173050s policy.gate root/b/in_doubt 0 {"gate":"G2","gate_kind":"in_doubt","question":"What now?","actions":["retry","fail"]}
	173060s policy.gate.resolve root/b/in_doubt 0 {"gate":"G2","action":"retry","via":"command"}
	173060s gate.taken root/b/in_doubt 3 {"gate":"G2","seq":22}
	173060s effect.intended root/b 3 {"name":"tool.call","class":"once","attempt":2}
	173070s effect.finished root/b 3 {"name":"tool.call","attempt":2,"ms":10000}
	173070s plan.step root/b 3 {"node":"b","status":"completed"}
	173070s intent.correct - 0 {"material":false,"program_digest":"sha256:q","revision":2}
	173070s run.continued - 3 {"state":{},"used":{"cost_usd":5},"limit":{}}
	173075s plan.step root@2/c 3 {"node":"c","status":"refused","error":{"reason":"policy_denied"}}
	173078s run.cancel_requested - 0 {"mode":"graceful"}
	173080s effect.intended root@2/d 3 {"name":"tool.call","class":"read","attempt":1}
	173090s intent.fail - 0 {"reason":"tool_error"}`

// drawn is a timeline in words, its times as offsets.
func drawn(t Timeline) string {
	var b strings.Builder
	off := func(at time.Time) string { return at.Sub(dawn).String() }
	for _, x := range t.Breaks {
		fmt.Fprintf(&b, "break %s +%s %s %v\n", off(x.From), x.Idle, x.Why, x.For)
	}
	for _, m := range t.Marks {
		fmt.Fprintf(&b, "mark %s %s", off(m.At), m.Kind)
		if m.Count > 1 {
			fmt.Fprintf(&b, " ×%d", m.Count)
		}
		b.WriteString("\n")
	}
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "%*s%s %s:", 2*r.Depth, "", r.Name, r.State)
		for _, x := range r.Bars {
			fmt.Fprintf(&b, " %s–%s", off(x.From), off(x.To))
			switch {
			case x.Wait:
				b.WriteString(" waits")
			case x.Open:
				fmt.Fprintf(&b, " %s open", x.State)
			default:
				fmt.Fprintf(&b, " %s", strings.TrimSpace(x.State.String()+" "+x.Code))
			}
			if x.Count > 1 {
				fmt.Fprintf(&b, " ×%d", x.Count)
			}
			b.WriteString(";")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTimeline(t *testing.T) {
	v := viewOf(tale(t, eventful))
	want := `break 0s +10s  []
break 40s +48h0m0s park [ok]
break 48h0m50s +3m20s kill []
mark 10s start
mark 40s park
mark 48h0m40s resume
mark 48h0m50s kill
mark 48h4m10s resume
mark 48h4m30s correction
mark 48h4m38s cancel_request
mark 48h4m50s end
root done: 10s–20s failed timeout; 20s–30s waits; 30s–48h0m50s uncertain open ×3; 48h0m50s–48h4m20s waits; 48h4m20s–48h4m30s done;
  a done: 10s–20s failed timeout; 20s–30s waits; 30s–40s done;
  ok done: 40s–48h0m40s done;
  b done: 48h0m40s–48h0m50s uncertain open; 48h0m50s–48h4m20s waits; 48h4m20s–48h4m30s done;
    in_doubt done: 48h4m10s–48h4m20s done;
root@2 refused: 48h4m35s–48h4m35s refused; 48h4m40s–48h4m50s cancelled;
  c refused: 48h4m35s–48h4m35s refused;
  d cancelled: 48h4m40s–48h4m50s cancelled;
`
	got := v.Timeline(TimelineQuery{}, dawn.Add(1000*time.Hour))
	if diff := cmp.Diff(want, drawn(got)); diff != "" {
		t.Error(diff)
	}

	// As of the wait for the retry, before it.
	if early := drawn(viewOf(tale(t, eventful)[:7]).Timeline(TimelineQuery{}, dawn.Add(25*time.Second))); !strings.Contains(early, "  a running: 10s–20s failed timeout; 20s–30s waits;\n") {
		t.Error(early)
	}

	// In the middle of a call, with an owner that is gone before anybody has said so.
	gone := drawn(viewOf(tale(t, eventful)[:18]).Timeline(TimelineQuery{Lost: true}, dawn.Add(173000*time.Second)))
	for _, want := range []string{"break 48h0m50s +2m30s kill []\n", "mark 48h0m50s kill\n", "  b running: 48h0m40s–48h0m50s uncertain open;\n"} {
		if !strings.Contains(gone, want) {
			t.Errorf("no %q in\n%s", want, gone)
		}
	}

	// The axis is the time driven: 30 s, 10 s and 40 s in what the three breaks leave.
	second := (1000 - 3*breakWidth) / 80
	for _, c := range []struct {
		at time.Duration
		x  float64
	}{
		{0, 0}, {10 * time.Second, breakWidth}, {40 * time.Second, breakWidth + 30*second}, {24*time.Hour + 40*time.Second, 1.5*breakWidth + 30*second},
		{172840 * time.Second, 2*breakWidth + 30*second}, {172850 * time.Second, 2*breakWidth + 40*second}, {173050 * time.Second, 3*breakWidth + 40*second}, {173090 * time.Second, 1000},
	} {
		if x := got.X(dawn.Add(c.at)); math.Abs(x-c.x) > 0.001 {
			t.Errorf("%s stands at %f, want %f", c.at, x, c.x)
		}
		if at := got.At(c.x); at.Sub(dawn.Add(c.at)).Abs() > time.Second {
			t.Errorf("at %f it is %s, want %s", c.x, at.Sub(dawn), c.at)
		}
	}
	real := v.Timeline(TimelineQuery{Real: true, Width: 173090}, dawn)
	for _, at := range []int{0, 10, 40, 100_000, 172850, 173090} { // a pixel is a second
		if x := real.X(dawn.Add(time.Duration(at) * time.Second)); math.Abs(x-float64(at)) > 0.01 {
			t.Errorf("second %d stands at %f", at, x)
		}
	}
	if wide := real.Breaks[1]; math.Abs(wide.Width-172800) > 0.01 {
		t.Errorf("two days are %f wide", wide.Width)
	}

	// A window shows what is in it.
	some := v.Timeline(TimelineQuery{From: dawn.Add(172845 * time.Second), To: dawn.Add(173040 * time.Second)}, dawn)
	if diff := cmp.Diff(`break 48h0m50s +3m10s kill []
mark 48h0m50s kill
root done: 48h0m40s–48h0m50s uncertain open; 48h0m50s–48h4m20s waits;
  b done: 48h0m40s–48h0m50s uncertain open; 48h0m50s–48h4m20s waits;
`, drawn(some)); diff != "" {
		t.Error(diff)
	}
}

// The call of a tool stage and that of a dispatch are their visit and their step: killed in
// the middle, they say so.
func TestTimelineOfACallThatIsItsStep(t *testing.T) {
	j := tale(t, `
		1s run.started - 1 {}
		2s stage.started work#1 1 {"stage":"work","visit":1,"attempt":1}
		3s effect.intended work#1 1 {"name":"tool.call","class":"once","attempt":1}
		9s run.resumed - 2 {}
		10s effect.intended work#1 2 {"name":"tool.call","class":"once","attempt":2}
		12s effect.finished work#1 2 {"name":"tool.call","attempt":2}
		13s stage.finished work#1 2 {"stage":"work","visit":1,"outcome":"success"}
		14s stage.started work#2 2 {"stage":"work","visit":2,"attempt":1}
		15s stage.retrying work#2 2 {"stage":"work","visit":2,"next_attempt":2,"delay_ms":5000,"code":"bad"}
		20s stage.started work#2 2 {"stage":"work","visit":2,"attempt":2}
		21s stage.finished work#2 2 {"stage":"work","visit":2,"outcome":"error"}`)
	v := NewView("", &Outline{Kind: ProgramPipeline, ID: "p"})
	for i := range j {
		v.Apply(&j[i])
	}
	got := drawn(v.Timeline(TimelineQuery{}, v.At))
	for _, want := range []string{
		"    work#1 done: 2s–3s uncertain open; 3s–10s waits; 10s–13s done;\n",
		"    work#2 failed: 14s–15s failed bad; 15s–20s waits; 20s–21s failed;\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// The panel of a node has what its records say.
func TestSpansTellOfACall(t *testing.T) {
	v := viewOf(tale(t, eventful))
	rows := map[string]Row{}
	for _, r := range v.Rows(v.At) {
		rows[r.Path] = r
	}
	a := rows["root/a"]
	if a.Attempts != 2 || a.Cost != 5 || rows["root"].Cost != 5 || a.Parent != "root" || a.Depth != 1 {
		t.Errorf("%+v", a)
	}
	s := a.Spans()[0]
	if tries := s.More().Tries; len(tries) != 1 || tries[0].Code != "timeout" || !tries[0].Next.Equal(dawn.Add(30*time.Second)) || s.Class != "read" || s.First != 6 || s.Last != 10 {
		t.Errorf("%+v %+v", s, s.More())
	}
	if g := rows["root/ok"].Spans()[0].More(); g.Gate != "G1" || g.Question != "Go on?" || g.Action != "approve" || g.By != "command" {
		t.Errorf("%+v", g)
	}
	b := rows["root/b"].Spans()[0]
	if b.IdempotencyKey(v.Run) == rows["root@2/d"].Spans()[0].IdempotencyKey(v.Run) || len(b.IdempotencyKey(v.Run)) != 64 {
		t.Error("the keys of two calls are the same")
	}
	open := viewOf(tale(t, eventful)[:12]) // parked
	for _, r := range open.Rows(open.At) {
		if r.Path == "root/ok" && (len(r.Gates) != 1 || r.Gates[0] != "G1" || r.Shown != NodeWaiting) {
			t.Errorf("%+v", r)
		}
	}
}

// Of real runs: an approval with its rule, a child run, visits of stages, a superseded node,
// a rollback.
func TestRealJournalsAreTold(t *testing.T) {
	all := goldenJournals(t)
	rows := func(name string) map[string]Row {
		found := map[string]Row{}
		v := viewOf(all[name])
		for _, r := range v.Rows(v.At) {
			found[r.Path] = r
		}
		return found
	}
	timeline := func(name string) string {
		v := viewOf(all[name])
		return drawn(v.Timeline(TimelineQuery{}, v.At))
	}
	for _, s := range rows("step-ask")["root/ask"].Spans() {
		if s.Path == "root/ask/tool#1.1" && (s.Approval == nil || s.Approval.Rule != "reads" || s.Approval.By != "policy" || s.Name != "builtin/read_file" ||
			s.Digest() != "sha256:361e64a8af6d65e711625d67a9247eb1584f46edf44624878b523c4ef6a66886") {
			t.Errorf("%+v %+v", s, s.Approval)
		}
	}
	if child := rows("child-greets")["root/one"].Child.String(); child != "01M7HW4NVN1R41ZT545PYCB6M8" {
		t.Errorf("the child is %s", child)
	}
	if r := rows("correction-accepted"); !r["root/ok"].Superseded || r["root/one"].Superseded || r["root@2/ok"].Superseded {
		t.Error("what the correction superseded is not told")
	}
	for name, want := range map[string][]string{
		"pipeline-loop":       {"    work#1 done:", "    work#2 done:", "      handoff done:"},
		"pipeline-rollback":   {" rollback\n"},
		"correction-accepted": {" correction\n", " park [confirm@2]\n"},
		"doubt-used":          {" kill\n", "uncertain open"},
	} {
		for _, w := range want {
			if got := timeline(name); !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", name, w, got)
			}
		}
	}
}

// A run of any size is drawn with few elements, and none is lost: they are counted.
func TestTimelineIsBounded(t *testing.T) {
	for name, events := range map[string][]Event{"turn": longTurn(9000), "calls": manyCalls(9000, false), "spread": manyCalls(9000, true)} {
		v := viewOf(events)
		total, marks := 0, 0
		for skip := 0; ; skip += timelineRows {
			got := v.Timeline(TimelineQuery{Skip: skip}, v.At)
			if len(got.Rows) > 200 {
				t.Fatalf("%s: %d rows", name, len(got.Rows))
			}
			marks = len(got.Marks)
			for _, r := range got.Rows {
				marks += len(r.Bars)
			}
			if marks > 1500 {
				t.Fatalf("%s: %d marks", name, marks)
			}
			if total += len(got.Rows); got.After == 0 {
				break
			}
		}
		if total < 45 {
			t.Errorf("%s: %d rows in all", name, total)
		}
		whole := v.Timeline(TimelineQuery{}, v.At)
		below, count := 0, 0
		for _, r := range whole.Rows {
			below += r.Below
			for _, b := range r.Bars {
				count += b.Count
			}
		}
		if calls := (len(events) - 5) / 2; name != "turn" && (below != calls || count != calls) {
			t.Errorf("%s: of %d calls %d are below a row, and %d in its bars", name, calls, below, count)
		}
	}
}

// Whatever is recorded, the axis runs forward and back, bars are in the window, and the
// limits hold.
func TestTimelineOfAnyRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := append(accepted(), rapid.SliceOfN(someEvent(), 1, 40).Draw(t, "events")...)
		at := dawn
		for i := range events {
			at = at.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms")) * time.Millisecond)
			events[i].Seq, events[i].At = int64(i+1), at
		}
		v := viewOf(events)
		q := TimelineQuery{Real: rapid.Bool().Draw(t, "real"), Width: rapid.IntRange(0, 2000).Draw(t, "width")}
		if rapid.Bool().Draw(t, "window") {
			q.From = dawn.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "from")) * time.Second)
			q.To = q.From.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "to")) * time.Second)
		}
		got := v.Timeline(q, at)
		last := -1.0
		for i := range 50 {
			moment := got.From.Add(got.To.Sub(got.From) * time.Duration(i) / 49)
			x := got.X(moment)
			if x < last-1e-6 || x < -1e-6 || x > float64(got.Width)+1e-6 {
				t.Fatalf("%s stands at %f, after %f", moment, x, last)
			}
			if back := got.X(got.At(x)); math.Abs(back-x) > 0.01 {
				t.Fatalf("%f is %s, which stands at %f", x, got.At(x), back)
			}
			last = x
		}
		for _, r := range got.Rows {
			for _, b := range r.Bars {
				if b.X < -1e-6 || b.Width < -1e-6 || b.X+b.Width > float64(got.Width)+1e-6 || b.Count < 1 {
					t.Fatalf("%s has a bar %+v in %d pixels", r.Path, b, got.Width)
				}
			}
		}
	})
}
