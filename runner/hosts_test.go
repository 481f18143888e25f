package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// attach takes in a host of the local user.
func (b *bed) attach(id string, agents ...tipstaff.HostedAgent) tipstaff.Host {
	b.t.Helper()
	h, err := b.Hosts().Register(cli(), tipstaff.HostRegistration{HostID: id, Agents: agents})
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// call is the next thing that a host is asked for, and a call.
func (b *bed) call(h tipstaff.Host) *tipstaff.HostCall {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	o, err := h.Next(ctx)
	if err != nil || o.Call == nil {
		b.t.Fatalf("the host is asked for %+v, %v", o, err)
	}
	return o.Call
}

// beginRemote drives a pipeline of one remote stage in the background.
func (b *bed) beginRemote(effect string) (tipstaff.ID, <-chan tipstaff.Driven) {
	b.t.Helper()
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("name: p\nagents: [{name: critic, effect: " + effect + ", remote: {}}]")})
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan tipstaff.Driven, 1)
	go func() {
		d, _ := b.Wait(cli(), s.Run)
		done <- d
	}()
	return s.Run, done
}

func given(call *tipstaff.HostCall, output string) tipstaff.HostResult {
	return tipstaff.HostResult{Call: call.ID, Output: json.RawMessage(output)}
}

// lostCall is a run that waits for a person to say what became of its once call, for the
// stage that is written, and the call itself.
func (b *bed) lostCall(stage string) (tipstaff.ID, tipstaff.Gate, *tipstaff.HostCall) {
	b.t.Helper()
	b.AwaitHosts(20 * time.Millisecond)
	run, done := b.beginRemote(stage)
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	call := b.call(h)
	h.Leave()
	if driven := <-done; driven.Outcome != string(flow.ParkedRun) {
		b.t.Fatalf("the drive ended %+v", driven)
	}
	gates := b.get(run).OpenGates
	if len(gates) != 1 || gates[0].Kind != tipstaff.InDoubt || gates[0].Path != "critic#1" {
		b.t.Fatalf("the gates are %+v", gates)
	}
	return run, gates[0], call
}

func (b *bed) of(run tipstaff.ID, kind tipstaff.Kind) []tipstaff.Event {
	return slices.DeleteFunc(b.events(run), func(e tipstaff.Event) bool { return e.Kind != kind })
}

func (b *bed) completes(run tipstaff.ID, want string) {
	b.t.Helper()
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		b.t.Fatalf("the run ended %+v", driven)
	}
	if got := string(flow.JSON(output(b.state(run), "critic"))); got != want {
		b.t.Errorf("the stage brought %s, want %s", got, want)
	}
	b.verified(run)
}

// A result that comes when the gate is open is shown in it, and is its answer unless
// another is given.
func TestALostOnceCallIsInDoubtAndItsResultIsOffered(t *testing.T) {
	b := newBed(t)
	run, gate, call := b.lostCall("once")
	if _, err := b.decide(run, gate.ID.String(), "use_result"); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Fatalf("use_result without an answer, and nothing was brought: %v", err)
	}
	other := b.attach("h2", tipstaff.HostedAgent{Name: "critic"})
	if err := other.Complete(cli(), given(call, `{"late": "forged"}`)); err != nil {
		t.Fatal(err)
	}
	if n := len(b.of(run, tipstaff.KindEffectGiven)); n != 0 || len(b.of(run, tipstaff.KindEffectLate)) != 1 {
		t.Fatalf("another host's result is offered: %v", b.kinds(run))
	}
	back := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	for range 2 {
		if err := back.Complete(cli(), given(call, `{"late": true}`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.of(run, tipstaff.KindEffectGiven)); n != 1 {
		t.Fatalf("what came twice is recorded %d times", n)
	}
	shown := b.get(run).OpenGates[0]
	if shown.Given == nil || shown.Given.Host != "h1" || string(shown.Given.Output) != `{"late":true}` ||
		!strings.Contains(strings.Join(shown.Shown.Lines, "\n"), "host h1 has brought its result") {
		t.Fatalf("the gate shows %+v: %q", shown.Given, shown.Shown.Lines)
	}
	if _, err := b.decide(run, gate.ID.String(), "use_result"); err != nil {
		t.Fatal(err)
	}
	b.completes(run, `{"late":true}`)
}

// What a host brings late is recorded beside a drive: credentials are taken out of it all
// the same.
func TestALateResultHoldsNoCredential(t *testing.T) {
	t.Setenv("SOME_KEY", "0123456789abcdef")
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"\nmodels: {m: {provider: anthropic, model: x, api_key: \"$env:SOME_KEY\"}}\n")
	run, _, call := b.lostCall("once")
	for host, output := range map[string]string{"h1": `{"token": "0123456789abcdef"}`, "h2": `{"other": "0123456789abcdef"}`} {
		if err := b.attach(host, tipstaff.HostedAgent{Name: "critic"}).Complete(cli(), given(call, output)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.of(run, tipstaff.KindEffectGiven)) != 1 || len(b.of(run, tipstaff.KindEffectLate)) != 1 {
		t.Fatalf("the records are %v", b.kinds(run))
	}
	for _, e := range b.events(run) {
		if strings.Contains(string(e.Body), "0123456789abcdef") {
			t.Errorf("%s: %s", e.Kind, e.Body)
		}
	}
}

// The data is the stage's output itself, and is held to what the stage promises.
func TestAResultThatAPersonGivesIsTheStagesOutput(t *testing.T) {
	b := newBed(t)
	run, gate, _ := b.lostCall(`once, required_output_fields: [paid], output_schema: {properties: {paid: {type: integer}}}`)
	for answer, reason := range map[string]string{
		`{"output": {"paid": 1}}`: "has no paid",
		`{"paid": "yes"}`:         "not as its schema says",
		`[1]`:                     "object",
		`{"paid": 1, "usage": "` + strings.Repeat("x", 12<<20) + `"}`: "more than",
	} {
		_, err := b.decide(run, gate.ID.String(), "use_result", func(d *tipstaff.DecideRequest) { d.Answer = json.RawMessage(answer) })
		if tipstaff.CodeOf(err) != tipstaff.InvalidArgument || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40s: %v, want %s", answer, err, reason)
		}
	}
	if n := len(b.get(run).OpenGates); n != 1 {
		t.Fatalf("%d gates are open", n)
	}
	// What looks like use is data of the output.
	if _, err := b.decide(run, gate.ID.String(), "use_result", func(d *tipstaff.DecideRequest) {
		d.Answer = json.RawMessage(`{"paid": 1, "usage": {"llm_calls": 5}}`)
	}); err != nil {
		t.Fatal(err)
	}
	b.completes(run, `{"paid":1,"usage":{"llm_calls":5}}`)
	if n := b.state(run)["llm_call_count"]; n != float64(0) {
		t.Errorf("%v model calls were counted", n)
	}
}

// leftCall is a run whose process ended while a host had its once call.
func (b *bed) leftCall() (tipstaff.ID, *tipstaff.HostCall) {
	b.t.Helper()
	run, done := b.beginRemote("once")
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	call := b.call(h)
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	h.Leave()
	if driven := <-done; driven.Outcome != "interrupted" {
		b.t.Fatalf("the drive ended %+v", driven)
	}
	b.reopened()
	return run, call
}

// After a restart the host that has the call is waited for as long as before, and nobody
// else.
func TestAResultThatComesAfterARestartIsTheAnswer(t *testing.T) {
	b := newBed(t)
	run, call := b.leftCall()
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	b.untilAt(run, tipstaff.KindRunResumed, "")
	other := b.attach("h2", tipstaff.HostedAgent{Name: "critic"})
	if err := other.Complete(cli(), given(call, `{"from": "h2"}`)); err != nil {
		t.Fatal(err)
	}
	back := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	if err := back.Complete(cli(), given(call, `{"from": "h1"}`)); err != nil {
		t.Fatal(err)
	}
	if driven := b.wait(s.Run); driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	if got := output(b.state(run), "critic").(map[string]any)["from"]; got != "h1" || len(b.of(run, tipstaff.KindPolicyGate)) != 0 {
		t.Errorf("the stage brought %v; %v", got, b.kinds(run))
	}
	b.verified(run)
}

// A host may be back before its run is.
func TestAResultThatComesBeforeTheRunIsDrivenAgainIsTheAnswer(t *testing.T) {
	b := newBed(t)
	run, call := b.leftCall()
	back := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	if err := back.Complete(cli(), given(call, `{"from": "h1"}`)); err != nil {
		t.Fatal(err)
	}
	b.completes(run, `{"from":"h1"}`)
	if n := len(b.of(run, tipstaff.KindPolicyGate)); n != 0 {
		t.Errorf("%d gates were opened", n)
	}
}

// When nobody comes the run asks, as it does without a restart.
func TestACallThatNobodyBringsBackIsInDoubt(t *testing.T) {
	b := newBed(t)
	run, _ := b.leftCall()
	b.AwaitHosts(20 * time.Millisecond)
	if driven := b.resume(run); driven.Outcome != string(flow.ParkedRun) {
		t.Fatalf("the drive ended %+v", driven)
	}
	if gates := b.get(run).OpenGates; len(gates) != 1 || gates[0].Kind != tipstaff.InDoubt {
		t.Errorf("the gates are %+v", gates)
	}
}

func TestACallThatIsTriedAgainIsAnother(t *testing.T) {
	b := newBed(t)
	b.AwaitHosts(time.Millisecond)
	run, done := b.beginRemote("once")
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	first := b.call(h)
	h.Leave()
	<-done
	if _, err := b.decide(run, b.get(run).OpenGates[0].ID.String(), "retry"); err != nil {
		t.Fatal(err)
	}
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	h = b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	second := b.call(h)
	if second.ID == first.ID || second.Redelivery || second.IdempotencyKey != first.IdempotencyKey {
		t.Errorf("the second call is %+v after %+v", second, first)
	}
	if err := h.Complete(cli(), given(first, `{"from": "first"}`)); err != nil { // late
		t.Fatal(err)
	}
	if err := h.Complete(cli(), given(second, `{"from": "second"}`)); err != nil {
		t.Fatal(err)
	}
	if driven := b.wait(s.Run); driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	if got := output(b.state(run), "critic").(map[string]any)["from"]; got != "second" {
		t.Errorf("the stage brought %v", got)
	}
	b.verified(run)
}

func TestCompleteReturnsWhenTheResultIsDurable(t *testing.T) {
	b := newBed(t)
	run, done := b.beginRemote("once")
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	call := b.call(h)
	if err := h.Complete(cli(), given(call, `{"n": 1}`)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(b.events(run), func(e tipstaff.Event) bool { return e.Kind == tipstaff.KindEffectFinished && e.Path == "critic#1" }) {
		t.Errorf("it was acknowledged before it was recorded: %v", b.kinds(run))
	}
	if driven := <-done; driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	if err := h.Complete(cli(), given(call, `{"n": 1}`)); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if n := len(slices.DeleteFunc(b.kinds(run), func(k string) bool { return k != string(tipstaff.KindEffectLate) })); n != 0 {
		t.Errorf("%d results were recorded as late", n)
	}
}

func TestAStricterHostIsNotAsked(t *testing.T) {
	b := newBed(t)
	b.attach("h1", tipstaff.HostedAgent{Name: "critic", Effect: "once"})
	run, done := b.beginRemote("read")
	if driven := <-done; driven.State != tipstaff.Failed || driven.Code != "effect_conflict" {
		t.Errorf("the run ended %+v", driven)
	}
	b.verified(run)
}

func TestAStopWhileNobodyIsThereLeavesNothingInDoubt(t *testing.T) {
	b := newBed(t)
	run, done := b.beginRemote("once")
	b.untilAt(run, tipstaff.KindStageStarted, "critic#1")
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	if driven := <-done; driven.Outcome != string(tipstaff.Interrupted) {
		t.Fatalf("the drive ended %+v", driven)
	}
	b.reopened()
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	if err := h.Complete(cli(), given(b.call(h), `{}`)); err != nil {
		t.Fatal(err)
	}
	if driven := b.wait(s.Run); driven.State != tipstaff.Completed {
		t.Errorf("the run ended %+v", driven)
	}
}

// What a host says late went wrong is cut as all errors are, and the whole of it is kept
// with the run, which goes on with it.
func TestALateErrorOfAHostIsCut(t *testing.T) {
	b := newBed(t)
	run, gate, call := b.lostCall("once")
	whole := "the beginning " + strings.Repeat("x", 5<<20) + " the end"
	for _, host := range []string{"h1", "h1", "h2"} { // what comes again is the same, and what another host brings is noted
		if err := b.attach(host, tipstaff.HostedAgent{Name: "critic"}).Complete(cli(), tipstaff.HostResult{Call: call.ID, Error: &tipstaff.HostError{Code: "broken", Message: whole}}); err != nil {
			t.Fatal(err)
		}
	}
	given, late := b.of(run, tipstaff.KindEffectGiven), b.of(run, tipstaff.KindEffectLate)
	if len(given) != 1 || len(late) != 1 {
		t.Fatalf("the records are %v", b.kinds(run))
	}
	if noted := tipstaff.BodyOf[tipstaff.EffectLate](&late[0]).Error.Message; len(noted) > flow.MostMessage || strings.Contains(noted, "--artifact") {
		t.Errorf("%d bytes are noted, which name what nothing keeps: %.200s", len(noted), noted)
	}
	said := tipstaff.BodyOf[flow.EffectGiven](&given[0])
	if e := said.Error; e == nil || len(e.Message) > flow.MostMessage || !strings.HasPrefix(e.Message, "the beginning") || !strings.HasSuffix(e.Message, "the end") {
		t.Fatalf("%d bytes are recorded: %.200s", len(given[0].Body), given[0].Body)
	}
	if kept, err := b.store.Blob(cli(), said.Error.Whole); err != nil || string(kept) != whole || !slices.Equal(said.Keep, []string{said.Error.Whole}) {
		t.Errorf("kept are %d bytes as %q, %v, named are %v", len(kept), said.Error.Whole, err, said.Keep)
	}
	if _, err := b.decide(run, gate.ID.String(), "use_result"); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.State != tipstaff.Failed || driven.Code != "broken" || len(driven.Message) > flow.MostMessage+100 { // with where that was
		t.Errorf("the run ended %.300v", driven)
	}
	for _, e := range b.events(run) {
		if len(e.Body) > 3*flow.MostMessage {
			t.Errorf("%s has %d bytes", e.Kind, len(e.Body))
		}
	}
	b.verified(run)
}

func TestAFailureOfAnAgent(t *testing.T) {
	for _, tc := range []struct{ code, want string }{{"not_today", "not_today"}, {"bound_exceeded", "agent_error"}, {"Two words", "agent_error"}, {"", "agent_error"}} {
		b := newBed(t)
		_, done := b.beginRemote("read")
		h := b.attach("h1", tipstaff.HostedAgent{Name: "critic", Effect: "read"})
		call := b.call(h)
		if err := h.Complete(cli(), tipstaff.HostResult{Call: call.ID, Error: &tipstaff.HostError{Code: tc.code, Message: "why"}}); err != nil {
			t.Fatal(err)
		}
		if driven := <-done; driven.State != tipstaff.Failed || driven.Code != tc.want || !strings.Contains(driven.Message, "why") {
			t.Errorf("%q ended it with %+v", tc.code, driven)
		}
	}
}
