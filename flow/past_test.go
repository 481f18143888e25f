package flow

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func fold(t *testing.T, limits Use, lines ...string) *past {
	t.Helper()
	p, err := foldHistory(History{Records: told(t, lines...)}, limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhichRecordsFollowFromTheProgram(t *testing.T) {
	owned := []string{"effect.intended", "effect.failed", "effect.suspended", "effect.finished", "policy.gate", "intent.clarify", "gate.taken", "group.closed", "timer.set", "timer.fired", "clock.read"}
	closes := []string{"policy.gate.resolve", "intent.accept", "intent.answer"}
	handed := []string{"run.continued", "run.forked", "bound.reserved"}
	others := []string{"run.started", "run.resumed", "run.parked", "run.cancel_requested", "intent.attest", "intent.fail", "intent.cancel", "bound.warned", "x.said"}
	for _, kind := range slices.Concat(owned, closes, handed, others) {
		own, answer := slices.Contains(owned, kind), slices.Contains(closes, kind)
		if Owned(kind, 0) != own || Closes(kind) != answer || inherited(kind, 0) != (own || answer || slices.Contains(handed, kind)) {
			t.Errorf("%s: owned %v, answers %v, inherited %v", kind, Owned(kind, 0), Closes(kind), inherited(kind, 0))
		}
		if !Owned(kind, 1) || !inherited(kind, 1) {
			t.Errorf("%s, emitted by the program, is not its own", kind)
		}
	}
}

func TestTheFoldOfACall(t *testing.T) {
	p := fold(t, Use{"calls": 9}, with(intended, `"reserve":{"calls":2}`))
	if c := p.calls["a"]; c.name != "t" || c.class != Read || c.attempt != 1 || !c.open || !c.intended || !c.inputKnown || c.digest != CallDigest("t", []byte("{}")) || p.ledger.reserved["calls"] != 2 {
		t.Errorf("intended: %+v, held %v", c, p.ledger.reserved)
	}
	p = fold(t, nil, with(intended, `"reserve":{"calls":2}`), `effect.failed a {"attempt":1,"use":{"calls":1},"retry_at":"2026-01-31T12:00:00Z"}`)
	if c := p.calls["a"]; c.open || c.intended || c.failures != 1 || c.done || c.retryAt.IsZero() || c.name != "t" || p.ledger.reserved["calls"] != 0 || p.ledger.used["calls"] != 1 {
		t.Errorf("failed: %+v, used %v", c, p.ledger.used)
	}
	p = fold(t, nil, intended, `effect.suspended a {"attempt":1}`)
	if c := p.calls["a"]; !c.open || !c.suspended || c.done {
		t.Errorf("suspended: %+v", c)
	}
	p = fold(t, nil, intended, `effect.failed a {"attempt":1,"retry_at":"2026-01-31T12:00:00Z"}`, put(intended, `"attempt":1`, `"attempt":2`))
	if c := p.calls["a"]; c.attempt != 2 || !c.retryAt.IsZero() || c.failures != 1 {
		t.Errorf("tried again: %+v", c)
	}
	p = fold(t, nil, intended, `effect.finished a {"attempt":1,"value":7,"ms":5,"by":"user:ada","use":{"calls":1},"error":{"code":"x","after_ms":1500}}`)
	if c := p.calls["a"]; !c.done || c.open || string(c.value) != "7" || c.ms != 5 || c.by != "user:ada" || c.use["calls"] != 1 || c.err.After != 1500*time.Millisecond || c.name != "t" {
		t.Errorf("finished: %+v", c)
	}
	p = fold(t, nil, with(intended, `"reserve":{"calls":2}`), `note bound.reserved a {"by":{"calls":3}}`)
	if c := p.calls["a"]; c.reserve["calls"] != 5 || p.ledger.reserved["calls"] != 5 {
		t.Errorf("more reserved: %+v, held %v", c, p.ledger.reserved)
	}
	p = fold(t, nil, intended, finished, `note bound.reserved a {"by":{"calls":3}}`)
	if p.ledger.reserved["calls"] != 0 {
		t.Errorf("reserved when all was over: %v", p.ledger.reserved)
	}
}

func TestTheFoldOfTheRest(t *testing.T) {
	p := fold(t, Use{"calls": 3},
		"e2 "+`clock.read c {"t":"2026-01-31T12:00:00Z"}`, `timer.set s {"until":"2026-01-31T13:00:00Z"}`, `timer.fired s {"t":"2026-01-31T13:00:01Z"}`,
		`group.closed g {"skipped":["x"]}`, `n1 said e {"a":1}`, `note bound.warned - {"bound":"calls"}`, `note other - {"bound":"tokens"}`, `s9 draft.updated - {"used":{"calls":2}}`, `s4 draft.updated - {}`)
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	if !p.clocks["c"].t.Equal(at("2026-01-31T12:00:00Z")) || !p.timers["s"].until.Equal(at("2026-01-31T13:00:00Z")) || !p.timers["s"].fired.Equal(at("2026-01-31T13:00:01Z")) {
		t.Errorf("times: %+v, %+v", p.clocks["c"], p.timers["s"])
	}
	if !p.groups["g"].skipped["x"] || p.emits[emitKey{"e", 1}].kind != "said" || p.emits[emitKey{"e", 1}].digest != digest("said", []byte(`{"a":1}`)) {
		t.Errorf("%+v, %+v", p.groups["g"], p.emits)
	}
	if diff := cmp.Diff(map[string]bool{"calls": true}, p.warned); diff != "" || p.ledger.used["calls"] != 2 {
		t.Errorf("warned %v, used %v", p.warned, p.ledger.used)
	}
	if p.records != 7 || p.last != 9 || !p.latest.Equal(at("2026-01-31T13:00:01Z")) {
		t.Errorf("%d records without notes, the last is %d, the latest time %v", p.records, p.last, p.latest)
	}
	p = fold(t, nil, `run.cancel_requested - {"deadline":"2026-01-31T12:00:00Z"}`)
	if p.cancel == nil || p.cancel.Deadline.IsZero() || p.cut {
		t.Errorf("cancelled: %+v", p.cancel)
	}
	if p = fold(t, nil, `run.correction_requested - {}`); !p.cut || p.cancel != nil {
		t.Error("a correction cuts")
	}
	for _, kind := range []string{"effect.finished", "policy.gate", "policy.gate.resolve", "gate.taken", "group.closed", "clock.read", "run.cancel_requested", "run.continued", "draft.updated"} {
		if _, err := foldHistory(History{Records: []Record{{Draft: Draft{Kind: kind, Body: json.RawMessage(`[`)}}}}, nil); err == nil {
			t.Errorf("a torn %s is read", kind)
		}
	}
}

// The run's time never falls, whoever wrote a record.
func TestTheLatestTime(t *testing.T) {
	early, late := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	records := []Record{{Seq: 1, At: late, Draft: Draft{Kind: "x"}}, {Seq: 2, At: early, Draft: Draft{Kind: "x"}}}
	for name, h := range map[string]History{"own": {Records: records}, "of a base": {Base: records}} {
		if p, err := foldHistory(h, nil); err != nil || !p.latest.Equal(late) {
			t.Errorf("%s: %v, %v", name, p.latest, err)
		}
	}
}

func TestTheFoldOfGates(t *testing.T) {
	p := fold(t, nil, asked, resolved)
	if g := p.gates["g"]; g != p.byID["G"] || g.id != "G" || g.kind != "question" || g.deny != "no" || g.taken != nil || g.closed || g.decision.Action != "go" || g.decision.By != "user:ada" || g.decision.seq != 2 {
		t.Errorf("decided: %+v", g)
	}
	if g := fold(t, nil, asked, resolved, taken).gates["g"]; g.taken != g.decision {
		t.Errorf("taken: %+v", g)
	}
	if g := fold(t, nil, asked, resolved, put(taken, "2", "1")).gates["g"]; g.taken != nil {
		t.Errorf("another record was taken: %+v", g)
	}
	if g := fold(t, nil, asked, with(resolved, `"via":"superseded"`)).gates["g"]; !g.closed || g.decision != nil {
		t.Errorf("closed: %+v", g)
	}
	if g := fold(t, nil, asked, resolved, put(resolved, `"go"`, `"no"`)).gates["g"]; g.decision.Action != "go" {
		t.Errorf("the first decision counts: %+v", g.decision)
	}
	if g := fold(t, nil, asked, put(resolved, `,"on_behalf_of":"user:ada"`, "")).gates["g"]; g.decision.By != "local:cli" {
		t.Errorf("who signed it decided: %+v", g.decision)
	}
	if g := fold(t, nil, asked, `intent.accept - {"gate":"G"}`).gates["g"]; g.decision.Action != "accept" {
		t.Errorf("accepted: %+v", g.decision)
	}
	if g := fold(t, nil, asked, `intent.answer - {"gate":"G","answers":{"a":1}}`).gates["g"]; g.decision.Action != "answer" || string(g.decision.Answer) != `{"a":1}` {
		t.Errorf("answered: %+v", g.decision)
	}
	base, err := foldHistory(History{Base: told(t, asked, resolved)}, nil)
	if err != nil || len(base.gates)+len(base.byID) != 0 {
		t.Errorf("a fork inherits a gate that was not taken: %+v, %v", base.gates, err)
	}
	if base, err = foldHistory(History{Base: told(t, asked, resolved, taken)}, nil); err != nil || base.byID["G"] == nil || base.last != 0 {
		t.Errorf("a fork inherits what was taken: %+v, %v", base.gates, err)
	}
}

func boundGate(answer string) []string {
	return []string{put(put(asked, "gate g", "gate a/bound#1"), `"gate_kind":"question"`, `"gate_kind":"bound"`),
		put(resolved, `"go"`, `"extend","answer":`+answer), put(taken, "taken g", "taken a/bound#1")}
}

// A bound that nobody set is not set by extending it.
func TestExtensions(t *testing.T) {
	for answer, want := range map[string]Use{`{"calls":2}`: {"calls": 5}, `{"tokens":2}`: {"calls": 3}, `{"calls":-2}`: {"calls": 3}, `{"calls":0}`: {"calls": 3}, `7`: {"calls": 3}} {
		p := fold(t, Use{"calls": 3}, boundGate(answer)...)
		if diff := cmp.Diff(want, p.ledger.limit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", answer, diff)
		}
		if p.stoppedAt("a") {
			t.Errorf("%s stops", answer)
		}
	}
	if p := fold(t, Use{"calls": 3}, boundGate(`{"calls":2}`)[:2]...); p.ledger.limit["calls"] != 3 || p.stoppedAt("a") {
		t.Error("a decision that was not taken has taken effect")
	}
	stopped := boundGate("null")
	stopped[1] = put(stopped[1], `"extend"`, `"stop"`)
	if p := fold(t, nil, stopped...); !p.stoppedAt("a") || p.stoppedAt("b") {
		t.Error("the call was stopped, and no other")
	}
}

// A call in doubt that is to be tried again is as one that was never begun.
func TestADoubtThatIsTriedAgain(t *testing.T) {
	lines := doubted("retry", "null")
	lines[0] = with(lines[0], `"reserve":{"calls":2}`)
	if p := fold(t, nil, lines...); p.calls["a"].open || p.ledger.reserved["calls"] != 0 || p.ledger.used["calls"] != 2 {
		t.Errorf("%+v, %+v", p.calls["a"], p.ledger)
	}
	if p := fold(t, nil, lines[:3]...); !p.calls["a"].open || p.ledger.reserved["calls"] != 2 {
		t.Errorf("before it was taken: %+v, %+v", p.calls["a"], p.ledger)
	}
}

func TestChildren(t *testing.T) {
	p := fold(t, nil, put(intended, "intended a", "intended root/a/x"), put(asked, "gate g", "gate root/b"), `n1 said root/c {}`, `timer.set root/d {}`, `clock.read root/e {}`, `group.closed root/f/y {}`, `clock.read rooted/g {}`)
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true}, p.childrenOf("root")); diff != "" {
		t.Error(diff)
	}
	if got := p.childrenOf(""); !got["root"] || !got["rooted"] || len(got) != 2 {
		t.Error(got)
	}
}

// A segment begins with totals, and with nothing else of what was before.
func TestASegmentBegins(t *testing.T) {
	p := fold(t, Use{"calls": 3}, intended, finished, `note bound.warned - {"bound":"calls"}`, `run.continued - {"state":{"n":1},"used":{"calls":2},"limit":{"calls":4},"t":"2026-01-31T12:00:00Z"}`)
	if len(p.calls) != 0 || string(p.state) != `{"n":1}` || p.ledger.used["calls"] != 2 || p.ledger.limit["calls"] != 4 || !p.warned["calls"] || p.last != 4 || p.latest.IsZero() || p.records != 0 {
		t.Errorf("%+v", p)
	}
	if p := fold(t, nil, `run.continued - {}`); string(p.state) != "null" {
		t.Errorf("no state is %s", p.state)
	}
	if p := fold(t, nil, with(intended, `"reserve":{"calls":2}`), `run.forked - {"counters":{"calls":7}}`); p.ledger.used["calls"] != 7 || p.calls["a"].reserve != nil {
		t.Errorf("a fork begins with its counters: %+v", p.ledger)
	}
	if p := fold(t, nil, with(intended, `"reserve":{"calls":2}`), `run.forked - {}`); p.ledger.used["calls"] != 0 || p.ledger.reserved["calls"] != 2 {
		t.Errorf("a fork without counters begins as it is: %+v", p.ledger)
	}
}

func TestWallTime(t *testing.T) {
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	rec := func(second int, epoch int64, kind, body string) Record {
		return Record{At: start.Add(time.Duration(second) * time.Second), Epoch: epoch, Draft: Draft{Kind: kind, Body: json.RawMessage(body)}}
	}
	begun := rec(0, 1, "run.started", `{}`)
	for name, c := range map[string]struct {
		records []Record
		want    time.Duration
	}{
		"nothing":                      {nil, 0},
		"one drive":                    {[]Record{begun, rec(3, 1, "x", `{}`)}, 3 * time.Second},
		"what others write":            {[]Record{begun, rec(3, 1, "x", `{}`), rec(9, 0, "x", `{}`)}, 3 * time.Second},
		"before any drive":             {[]Record{rec(0, 1, "x", `{}`), rec(5, 1, "x", `{}`)}, 0},
		"lost, and resumed":            {[]Record{begun, rec(3, 1, "x", `{}`), rec(10, 2, "run.resumed", `{}`), rec(14, 2, "x", `{}`)}, 7 * time.Second},
		"parked":                       {[]Record{begun, rec(3, 1, "x", `{}`), rec(4, 1, "run.parked", `{"wall_ms":5000}`), rec(9, 0, "x", `{}`)}, 5 * time.Second},
		"parked, and not said":         {[]Record{begun, rec(3, 1, "x", `{}`), rec(4, 1, "run.parked", `{}`)}, 4 * time.Second},
		"parked, and resumed":          {[]Record{begun, rec(4, 1, "run.parked", `{"wall_ms":5000}`), rec(10, 2, "run.resumed", `{}`), rec(12, 2, "x", `{}`)}, 7 * time.Second},
		"continued":                    {[]Record{begun, rec(3, 1, "run.continued", `{"wall_ms":3000}`), rec(5, 1, "x", `{}`)}, 5 * time.Second},
		"forked":                       {[]Record{rec(0, 1, "run.forked", `{"wall_ms":8000}`), rec(5, 1, "run.started", `{}`), rec(6, 1, "x", `{}`)}, 9 * time.Second},
		"a clock that was set back":    {[]Record{begun, rec(-3, 1, "x", `{}`)}, 0},
		"parked, and somebody's clock": {[]Record{begun, rec(4, 1, "run.parked", `{"wall_ms":1000}`), rec(20, 1, "x", `{}`)}, time.Second},
	} {
		if got := Wall(History{Records: c.records}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := Wall(History{Base: []Record{begun, rec(3, 1, "x", `{}`)}, Records: []Record{rec(9, 1, "run.started", `{}`), rec(11, 1, "x", `{}`)}}); got != 5*time.Second {
		t.Errorf("with its base: %v", got)
	}
}

// What a decision does depends on what was asked.
func TestDecisionsActOnTheirOwnKind(t *testing.T) {
	if p := fold(t, Use{"calls": 3}, asked, put(resolved, `"go"`, `"extend","answer":{"calls":2}`), taken); p.ledger.limit["calls"] != 3 {
		t.Errorf("the answer to a question extends a bound: %v", p.ledger.limit)
	}
	other := boundGate(`{"calls":2}`)
	other[1] = put(other[1], `"extend"`, `"later"`)
	if p := fold(t, Use{"calls": 3}, other...); p.ledger.limit["calls"] != 3 || !p.stoppedAt("a") {
		t.Errorf("another answer extends a bound: %v", p.ledger.limit)
	}
	lines := doubted("use_result", "1")
	if p := fold(t, nil, lines...); !p.calls["a"].open {
		t.Error("a result that was given settles the call before it is recorded")
	}
	question := []string{intended, put(asked, "gate g", "gate a/x"), put(resolved, `"go"`, `"retry"`), put(put(taken, "taken g", "taken a/x"), "2", "3")}
	if p := fold(t, nil, question...); !p.calls["a"].open {
		t.Error("the answer to a question settles a call")
	}
	second := append(boundGate(`{"calls":2}`), put(put(put(asked, "gate g", "gate a/bound#2"), `"gate_kind":"question"`, `"gate_kind":"bound"`), `"G"`, `"H"`),
		put(put(resolved, `"G"`, `"H"`), `"go"`, `"stop"`), `gate.taken a/bound#2 {"gate":"H","seq":5}`)
	if p := fold(t, nil, second...); !p.stoppedAt("a") {
		t.Error("the second question about a bound was answered with stop")
	}
}
