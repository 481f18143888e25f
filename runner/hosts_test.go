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

func TestALostOnceCallIsInDoubtAndItsResultLate(t *testing.T) {
	b := newBed(t)
	b.AwaitHosts(20 * time.Millisecond)
	run, done := b.beginRemote("once")
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	call := b.call(h)
	h.Leave()
	if driven := <-done; driven.Outcome != string(flow.ParkedRun) {
		t.Fatalf("the drive ended %+v", driven)
	}
	gates := b.get(run).OpenGates
	if len(gates) != 1 || gates[0].Kind != tipstaff.InDoubt || gates[0].Path != "critic#1" {
		t.Fatalf("the gates are %+v", gates)
	}
	back := b.attach("h1", tipstaff.HostedAgent{Name: "critic"})
	if err := back.Complete(cli(), given(call, `{"late": true}`)); err != nil {
		t.Fatal(err)
	}
	late := slices.DeleteFunc(b.events(run), func(e tipstaff.Event) bool { return e.Kind != tipstaff.KindEffectLate })
	if len(late) != 1 || late[0].Path != "critic#1" || !strings.Contains(string(late[0].Body), `"late":true`) || !strings.Contains(string(late[0].Body), `"h1"`) {
		t.Fatalf("what came late is recorded as %+v", late)
	}
	if _, err := b.decide(run, gates[0].ID.String(), "use_result", func(d *tipstaff.DecideRequest) { d.Answer = json.RawMessage(`{"output": {"late": true}}`) }); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	if got := output(b.state(run), "critic").(map[string]any)["late"]; got != true {
		t.Errorf("the stage brought %v", got)
	}
	b.verified(run)
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
