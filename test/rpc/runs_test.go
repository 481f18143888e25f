package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/rpc"
)

// remote is the Service of the bed over the wire, and here the same in process, both
// for one user.
func (b *bed) remote(user string) (far, near tipstaff.Service, ctx context.Context) {
	b.t.Helper()
	for _, c := range callers {
		if c.User != user {
			continue
		}
		client, err := rpc.Dial(b.addr, rpc.ClientOptions{Token: c.Secret, Agent: "tipstaff/test"})
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { client.Close() })
		scopes := c.Scopes
		if scopes == nil {
			scopes = tipstaff.DefaultScopes()
		}
		return client, b.runner, tipstaff.WithCaller(b.ctx(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: scopes})
	}
	b.t.Fatalf("there is no %s", user)
	return nil, nil, nil
}

const confirming = `
name: asking
agents:
  - {name: work, stage_order: 1, scripted: {answers: [{output: {n: 1}}], repeat: last}, default_next: judge}
  - name: judge
    stage_order: 2
    scripted: {answers: [{output: {verdict: ask}}, {output: {verdict: ok}}], repeat: last}
    routing_rules:
      - {condition: verdict, value: ask, target: confirmation, then: end}
`

// What a client is told over the wire is what it would be told in process: every
// answer, every record byte for byte, and every error with all it says.
func TestServiceOverTheWire(t *testing.T) {
	b := newBed(t)
	far, near, ctx := b.remote("alice")
	start := tipstaff.StartRequest{Name: "asking.yaml", Program: []byte(confirming), NoFiles: true, Title: "over the wire",
		Inputs: map[string]json.RawMessage{"raw_input": json.RawMessage(`"hello"`)}}
	checked, err := far.Validate(ctx, tipstaff.ValidateRequest{Start: &start, Graph: "mermaid"})
	same(t, "Validate")(checked, err)(near.Validate(ctx, tipstaff.ValidateRequest{Start: &start, Graph: "mermaid"}))
	started, err := far.Start(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	run := started.Run
	driven, err := far.Wait(ctx, run)
	if driven.Outcome != "parked" || err != nil {
		t.Fatalf("%+v %v", driven, err)
	}
	compare := func() {
		t.Helper()
		got, err := far.Get(ctx, run)
		same(t, "Get")(got, err)(near.Get(ctx, run))
		page, err := far.List(ctx, tipstaff.ListRequest{Limit: 3, Status: []string{got.Status}})
		same(t, "List")(page, err)(near.List(ctx, tipstaff.ListRequest{Limit: 3, Status: []string{got.Status}}))
		filtered := tipstaff.ListRequest{Kind: got.Program.Kind, Program: got.Program.Name, User: got.User, Since: got.CreatedAt.Add(-time.Minute), Text: got.ID.String(),
			Labels: got.Labels, Count: true, CountTo: 1, ByStatus: true, Today: got.CreatedAt.Add(-time.Minute)}
		page, err = far.List(ctx, filtered)
		same(t, "List, filtered")(page, err)(near.List(ctx, filtered))
		if len(page.Runs) != 1 || page.Runs[0].ID != run || page.Total != 1 || page.Counts == nil {
			t.Errorf("filtered: %+v", page)
		}
		driven, err := far.Wait(ctx, run)
		same(t, "Wait")(driven, err)(near.Wait(ctx, run))
		points, err := far.Checkpoints(ctx, run)
		same(t, "Checkpoints")(points, err)(near.Checkpoints(ctx, run))
		env, err := far.Envelope(ctx, run, "")
		same(t, "Envelope")(env, err)(near.Envelope(ctx, run, ""))
		drawn, err := far.Graph(ctx, run, "dot")
		same(t, "Graph")(drawn, err)(near.Graph(ctx, run, "dot"))
		document, err := far.Artifact(ctx, run, got.Program.Digest)
		same(t, "Artifact")(document, err)(near.Artifact(ctx, run, got.Program.Digest))
		report, err := far.Verify(ctx, tipstaff.VerifyRequest{Run: run, Open: true})
		same(t, "Verify")(report, err)(near.Verify(ctx, tipstaff.VerifyRequest{Run: run, Open: true}))
		counted := tipstaff.ListRequest{Limit: 1, Status: []string{got.Status}, Thread: got.Pipeline.Thread, Count: true}
		page, err = far.List(ctx, counted)
		same(t, "List, counted")(page, err)(near.List(ctx, counted))
		inbox, err := far.Inbox(ctx, tipstaff.InboxRequest{Limit: 1, Kinds: []tipstaff.GateKind{tipstaff.Confirmation}})
		same(t, "Inbox")(inbox, err)(near.Inbox(ctx, tipstaff.InboxRequest{Limit: 1, Kinds: []tipstaff.GateKind{tipstaff.Confirmation}}))
		threads, err := far.Threads(ctx, tipstaff.ThreadsRequest{Limit: 1})
		same(t, "Threads")(threads, err)(near.Threads(ctx, tipstaff.ThreadsRequest{Limit: 1}))
		if page.Total != 1 || inbox.Total != len(got.OpenGates) || len(threads.Threads) != 1 || threads.Threads[0].Head.ID != run {
			t.Errorf("%d runs, %d gates, threads %+v", page.Total, inbox.Total, threads)
		}
		asked, err := far.Gate(ctx, run, "judge#1/confirmation")
		same(t, "Gate")(asked, err)(near.Gate(ctx, run, "judge#1/confirmation"))
		control := func(s tipstaff.Service) tipstaff.Control {
			return tipstaff.Control{Runs: s, Now: func() time.Time { return got.UpdatedAt }}
		}
		status, err := control(far).Status(ctx, tipstaff.StatusRequest{Run: run, Include: []string{tipstaff.IncludeAll}})
		same(t, "Status")(status, err)(control(near).Status(ctx, tipstaff.StatusRequest{Run: run, Include: []string{tipstaff.IncludeAll}}))
		watched, err := control(far).Watch(ctx, tipstaff.WatchRequest{Run: run}, nil)
		same(t, "Watch")(watched, err)(control(near).Watch(ctx, tipstaff.WatchRequest{Run: run}, nil))
		for _, req := range []tipstaff.EventsRequest{{Run: run}, {Run: run, After: 3, Limit: 2}, {Run: run, Follow: true}} {
			records, err := collect(far.Events(ctx, req))
			same(t, "Events")(records, err)(collect(near.Events(ctx, req)))
			for _, e := range records {
				if len(e.Raw) == 0 {
					t.Errorf("record %d has lost its bytes", e.Seq)
				}
			}
		}
	}
	compare()
	gate := must(near.Get(ctx, run))(t).OpenGates[0]
	if err := far.Defer(ctx, run, gate.ID); err != nil {
		t.Error(err)
	}
	decision := tipstaff.DecideRequest{Run: run, Gate: gate.ID.String(), Action: "approve", Note: "seen"}
	decided := must(far.Decide(ctx, decision))(t)
	again := must(near.Decide(ctx, decision))(t)
	if !again.Replayed || string(again.Raw) != string(decided.Raw) || decided.Decision.Actor.Principal != "token:alice" {
		t.Errorf("decided %s, and again %s", decided.Raw, again.Raw)
	}
	must(far.Resume(ctx, tipstaff.ResumeRequest{Run: run}))(t)
	if d := must(far.Wait(ctx, run))(t); d.State != tipstaff.Completed {
		t.Errorf("%+v", d)
	}
	compare()
	made := must(far.Fork(ctx, tipstaff.ForkRequest{Run: run, Place: tipstaff.Place{Stage: "work"}}))(t)
	if labelled := must(far.Label(ctx, tipstaff.LabelRequest{Run: made.ID, Label: "here"}))(t); labelled.Labels[0] != "here" {
		t.Errorf("%+v", labelled)
	}
	back := must(far.Rollback(ctx, tipstaff.RollbackRequest{Run: run, Place: tipstaff.Place{Stage: "work"}}))(t)
	if got := must(far.Cancel(ctx, tipstaff.CancelRequest{Run: back.ID, Reason: "enough", Hard: true, Grace: time.Second, Wait: time.Minute}))(t); got.State != tipstaff.Cancelled || got.How != tipstaff.CancelDead {
		t.Errorf("%+v", got)
	}
	ended := tipstaff.CancelRequest{Run: back.ID}
	over, err := far.Cancel(ctx, ended)
	same(t, "Cancel of what has ended")(over, err)(near.Cancel(ctx, ended))
	if over.How != tipstaff.CancelDone {
		t.Errorf("%+v", over)
	}
	draft := must(far.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{Name: "asking.yaml", Program: []byte(confirming)}))(t)
	if err := far.UpdateEnvelope(ctx, tipstaff.EnvelopeUpdate{Run: draft.Run, Version: 1, Metadata: map[string]json.RawMessage{"m": json.RawMessage("1")}}); err != nil {
		t.Error(err)
	}
	alone := must(far.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: draft.Run, Name: "work"}))(t)
	must(far.Wait(ctx, alone.Run))(t)
	must(far.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: draft.Run}))(t)
	must(far.Wait(ctx, draft.Run))(t)

	missing := tipstaff.NewID(time.Now())
	bad := start
	bad.Program = []byte("name: x\nagents: [{name: a, scriptd: {}}]")
	for name, f := range map[string]func(tipstaff.Service) error{
		"no run":     func(s tipstaff.Service) error { _, err := s.Get(ctx, missing); return err },
		"no program": func(s tipstaff.Service) error { _, err := s.Start(ctx, bad); return err },
		"no prose":   func(s tipstaff.Service) error { _, err := s.Draft(ctx, tipstaff.DraftRequest{}); return err },
		"no reason": func(s tipstaff.Service) error {
			_, err := s.Correct(ctx, tipstaff.CorrectRequest{Run: run})
			return err
		},
		"ended": func(s tipstaff.Service) error { _, err := s.Resume(ctx, tipstaff.ResumeRequest{Run: run}); return err },
		"cursor": func(s tipstaff.Service) error {
			_, err := collect(s.Events(ctx, tipstaff.EventsRequest{Run: run, After: 1 << 40}))
			return err
		},
		"no gate":     func(s tipstaff.Service) error { _, err := s.Gate(ctx, run, "nowhere"); return err },
		"page of 201": func(s tipstaff.Service) error { _, err := s.Inbox(ctx, tipstaff.InboxRequest{Limit: 201}); return err },
		"no kind": func(s tipstaff.Service) error {
			_, err := s.Inbox(ctx, tipstaff.InboxRequest{Kinds: []tipstaff.GateKind{"riddle"}})
			return err
		},
		"threads before nothing": func(s tipstaff.Service) error {
			_, err := s.Threads(ctx, tipstaff.ThreadsRequest{Before: missing})
			return err
		},
		"detached": func(s tipstaff.Service) error {
			d := start
			d.Detach, d.Labels = true, map[string]string{"a": strings.Repeat("b", 1<<20)}
			_, err := s.Start(ctx, d)
			return err
		},
		"no checkpoint": func(s tipstaff.Service) error { _, err := s.Envelope(ctx, run, "cp_none"); return err },
		"a conflict": func(s tipstaff.Service) error {
			d := decision
			d.Action = "reject"
			_, err := s.Decide(ctx, d)
			return err
		},
		"files of the server": func(s tipstaff.Service) error {
			_, err := s.Verify(ctx, tipstaff.VerifyRequest{Run: run, Anchor: "/etc/passwd"})
			return err
		},
	} {
		var here, there *tipstaff.Error
		if !errors.As(f(near), &here) || !errors.As(f(far), &there) {
			t.Errorf("%s: in process %v, over the wire %v", name, f(near), f(far))
			continue
		}
		here.Err = nil // which stays where it is
		if diff := cmp.Diff(here, there); diff != "" {
			t.Errorf("%s, in process and over the wire:\n%s", name, diff)
		}
	}
	stranger, _, bob := b.remote("bob")
	if _, err := stranger.Get(bob, run); tipstaff.CodeOf(err) != tipstaff.Forbidden {
		t.Errorf("bob sees the run of alice: %v", err)
	}
}

// same compares two answers by what they say.
func same(t *testing.T, what string) func(far any, err error) func(near any, err error) {
	return func(far any, ferr error) func(any, error) {
		return func(near any, nerr error) {
			t.Helper()
			if ferr != nil || nerr != nil {
				t.Errorf("%s: over the wire %v, in process %v", what, ferr, nerr)
				return
			}
			a, b := text(t, far), text(t, near)
			if a != b {
				t.Errorf("%s, in process and over the wire:\n%s", what, cmp.Diff(b, a))
			}
			if reflect.TypeOf(far) != reflect.TypeOf(near) {
				t.Errorf("%s: %T and %T", what, far, near)
			}
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v %+v", err, err)
		}
		return v
	}
}

func collect(seq iter.Seq2[tipstaff.Event, error]) (all []tipstaff.Event, err error) {
	for e, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}
