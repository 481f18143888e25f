package runner_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

// Whoever knows a digest has not for that reason a right to what it names.
func TestArtifactsBelongToRuns(t *testing.T) {
	b := newBed(t)
	run, _ := b.pipe(loop)
	other, err := b.store.PutBlob(cli(), []byte(`"somebody else's"`))
	if err != nil {
		t.Fatal(err)
	}
	svc := b.Runner
	own := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "local", Principal: "token:local", Scopes: tipstaff.DefaultScopes()})
	if _, err := svc.Artifact(own, run, b.get(run).Program.Digest); err != nil {
		t.Errorf("the run's own program: %v", err)
	}
	if got, err := svc.Artifact(own, run, other); tipstaff.CodeOf(err) != tipstaff.ArtifactNotFound {
		t.Errorf("what no record of the run names was given: %q, %v", got, err)
	}
	back, err := b.Fork(cli(), forking{Run: run, Stage: "critic"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Artifact(own, back.ID, b.get(run).Program.Digest); err != nil {
		t.Errorf("what a fork inherits: %v", err)
	}
}

type id = tipstaff.ID

// guardedCall is a method that names a run, with the scope that it needs whatever else it is
// asked for.
type guardedCall struct {
	scope string
	do    func(context.Context, id) error
}

// guarded are all of them.
func guarded(svc *runner.Runner, digest string) map[string]guardedCall {
	return map[string]guardedCall{
		"Get": {tipstaff.ScopeRead, func(ctx context.Context, run id) error { _, err := svc.Get(ctx, run); return err }},
		"Events": {tipstaff.ScopeRead, func(ctx context.Context, run id) error {
			return firstError(svc.Events(ctx, tipstaff.EventsRequest{Run: run}))
		}},
		"Artifact": {tipstaff.ScopeRead, func(ctx context.Context, run id) error {
			_, err := svc.Artifact(ctx, run, digest)
			return err
		}},
		"Verify": {tipstaff.ScopeRead, func(ctx context.Context, run id) error {
			_, err := svc.Verify(ctx, tipstaff.VerifyRequest{Run: run})
			return err
		}},
		"Decide": {tipstaff.ScopeDecide, func(ctx context.Context, run id) error {
			_, err := svc.Decide(ctx, tipstaff.DecideRequest{Run: run, Gate: "none", Action: "approve"})
			return err
		}},
		"Gate": {tipstaff.ScopeRead, func(ctx context.Context, run id) error {
			_, err := svc.Gate(ctx, run, "root/ok")
			return err
		}},
		"Wait":        {tipstaff.ScopeRead, func(ctx context.Context, run id) error { _, err := svc.Wait(ctx, run); return err }},
		"Checkpoints": {tipstaff.ScopeRead, func(ctx context.Context, run id) error { _, err := svc.Checkpoints(ctx, run); return err }},
		"Graph":       {tipstaff.ScopeRead, func(ctx context.Context, run id) error { _, err := svc.Graph(ctx, run, "dot"); return err }},
		"Envelope":    {tipstaff.ScopeRead, func(ctx context.Context, run id) error { _, err := svc.Envelope(ctx, run, ""); return err }},
		"Defer":       {tipstaff.ScopeDecide, func(ctx context.Context, run id) error { return svc.Defer(ctx, run, run) }},
		"Correct": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			c := tipstaff.CallerFrom(ctx)
			if c.Scopes != nil { // documents have a scope of their own, which is looked at below
				c.Scopes = append(slices.Clone(c.Scopes), tipstaff.ScopeSubmit)
			}
			_, err := svc.Correct(tipstaff.WithCaller(ctx, c), tipstaff.CorrectRequest{Run: run, Reason: "because"})
			return err
		}},
		"Rollback": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.Rollback(ctx, tipstaff.RollbackRequest{Run: run, Place: tipstaff.Place{Checkpoint: "cp_none"}})
			return err
		}},
		"Label": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.Label(ctx, tipstaff.LabelRequest{Run: run, Label: "here"})
			return err
		}},
		"UpdateEnvelope": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			return svc.UpdateEnvelope(ctx, tipstaff.EnvelopeUpdate{Run: run})
		}},
		"ExecuteEnvelope": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: run})
			return err
		}},
		"ExecuteAgent": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: run, Name: "critic"})
			return err
		}},
		"Resume": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: run})
			return err
		}},
		"Cancel": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.Cancel(ctx, tipstaff.CancelRequest{Run: run})
			return err
		}},
		"Fork": {tipstaff.ScopeRun, func(ctx context.Context, run id) error {
			_, err := svc.Fork(ctx, tipstaff.ForkRequest{Run: run, Place: tipstaff.Place{Checkpoint: "cp_none"}})
			return err
		}},
	}
}

func TestGuard(t *testing.T) {
	b := newBed(t)
	run, _ := b.pipe(loop)
	digest := b.get(run).Program.Digest
	svc := b.Runner
	as := func(user string, scopes ...string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: user, Principal: "token:" + user, Scopes: scopes})
	}
	calls := guarded(svc, digest)
	for m := range reflect.TypeFor[tipstaff.Service]().Methods() {
		if _, ok := calls[m.Name]; !ok && !slices.Contains([]string{"List", "Inbox", "Threads", "Start", "Draft", "Validate", "CreateEnvelope"}, m.Name) { // which name no run, and are looked at below
			t.Errorf("nobody has said who may call %s", m.Name)
		}
	}
	missing := tipstaff.NewID(time.Now())
	all := tipstaff.DefaultScopes()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			others := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == call.scope })
			for who, ctx := range map[string]context.Context{
				"nobody": context.Background(), "another user": as("alice", all...), "a user without the scope": as("local", others...),
			} {
				if err := call.do(ctx, run); tipstaff.CodeOf(err) != tipstaff.Forbidden {
					t.Errorf("%s gets %v", who, err)
				}
			}
			for who, ctx := range map[string]context.Context{
				"the command line": cli(), "an admin": as("root", tipstaff.ScopeAdmin), "its user": as("local", call.scope),
			} {
				if err := call.do(ctx, run); tipstaff.CodeOf(err) == tipstaff.Forbidden {
					t.Errorf("%s gets %v", who, err)
				}
				if err := call.do(ctx, missing); tipstaff.CodeOf(err) != tipstaff.RunNotFound {
					t.Errorf("of a run that there is not, %s gets %v", who, err)
				}
			}
			for _, scope := range tipstaff.Scopes() {
				want := tipstaff.Forbidden
				if scope == call.scope || scope == tipstaff.ScopeAdmin {
					want = tipstaff.RunNotFound
				}
				if err := call.do(as("local", scope), missing); tipstaff.CodeOf(err) != want {
					t.Errorf("of a run that there is not, somebody with %s gets %v, want %s", scope, err, want)
				}
			}
		})
	}
	for _, scope := range tipstaff.Scopes() {
		_, err := svc.List(as("local", scope), tipstaff.ListRequest{})
		if may := scope == tipstaff.ScopeRead || scope == tipstaff.ScopeAdmin; may != (err == nil) {
			t.Errorf("somebody with %s who lists runs gets %v", scope, err)
		}
		_, inbox := svc.Inbox(as("local", scope), tipstaff.InboxRequest{})
		_, threads := svc.Threads(as("local", scope), tipstaff.ThreadsRequest{})
		for _, other := range []error{inbox, threads} {
			if (other == nil) != (err == nil) {
				t.Errorf("somebody with %s gets %v", scope, other)
			}
		}
	}
	for who, want := range map[string]int{"alice": 0, "local": 1} {
		if page, err := svc.List(as(who, tipstaff.ScopeRead), tipstaff.ListRequest{}); err != nil || len(page.Runs) != want {
			t.Errorf("%s sees %d runs, %v", who, len(page.Runs), err)
		}
	}
	brought := tipstaff.StartRequest{Name: "p", Program: []byte(loop), NoFiles: true}
	start := tipstaff.ValidateRequest{Start: &brought}
	_, drafted := svc.Draft(as("alice", all...), tipstaff.DraftRequest{})
	_, undrafted := svc.Draft(as("alice", tipstaff.ScopeRead), tipstaff.DraftRequest{Prose: "x"})
	_, unchecked := svc.Validate(as("alice", tipstaff.ScopeRun, tipstaff.ScopeSubmit), start)
	_, undraftable := svc.Validate(as("alice", tipstaff.ScopeRun), tipstaff.ValidateRequest{Draft: &tipstaff.DraftRequest{Prose: "x"}})
	_, unstarted := svc.Start(as("alice", tipstaff.ScopeRun), brought)
	_, unmade := svc.CreateEnvelope(as("alice", tipstaff.ScopeRun), tipstaff.EnvelopeRequest{Name: "p", Program: []byte(loop), NoFiles: true})
	wantCode(t, drafted, tipstaff.InvalidArgument)
	for _, err := range []error{undrafted, unchecked, undraftable, unstarted, unmade} {
		wantCode(t, err, tipstaff.Forbidden)
	}
	before := len(rowsOf(t, b))
	if _, err := svc.Validate(as("alice", tipstaff.ScopeRead), start); err != nil {
		t.Error(err)
	}
	if now := len(rowsOf(t, b)); now != before {
		t.Errorf("looking at a document has made %d runs", now-before)
	}
}

// firstError is the first of a sequence.
func firstError(events func(func(tipstaff.Event, error) bool)) error {
	for _, err := range events {
		if err != nil {
			return err
		}
	}
	return nil
}
