package rpc_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

func TestARequestMakesOneDraft(t *testing.T) {
	c := common(t).as("alice")
	req := &pb.CreateEnvelopeRequest{RawInput: "x", RequestId: proto.String("one-request"), SessionId: "s", Metadata: map[string]string{"a": "b"},
		MetadataJson: []byte(`{"n": 9007199254740993}`), Goals: []string{"g"}, StageOrder: []string{"second", "first"}, Pipeline: document(straight)}
	first, err := c.CreateEnvelope(c.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	if first.RequestId != "one-request" || first.SessionId != "s" || first.State != "drafting" || first.Version != 1 || first.CurrentStage != "start" ||
		string(first.MetadataJson) != `{"a":"b","n":9007199254740993}` || first.Goals[0].Status != "pending" || first.UserId != "alice" {
		t.Errorf("the draft is %v", first)
	}
	if diff := cmp.Diff([]string{"second", "first"}, first.StageOrder); diff != "" {
		t.Error(diff)
	}
	again, err := c.CreateEnvelope(c.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	req.RawInput = "y"
	_, err = c.CreateEnvelope(c.ctx(), req)
	wantCode(t, err, codes.AlreadyExists, tipstaff.RequestConflict)
}

func TestWhatIsCreatedMustFit(t *testing.T) {
	c := common(t).as("alice")
	for name, req := range map[string]*pb.CreateEnvelopeRequest{
		"a key twice":            {Metadata: map[string]string{"k": "v"}, MetadataJson: []byte(`{"k": 1}`)},
		"no object":              {MetadataJson: []byte(`[1]`)},
		"bad JSON":               {MetadataJson: []byte(`{"a": 1, "a": 2}`)},
		"stages of another":      {StageOrder: []string{"first"}},
		"an empty config":        {Pipeline: &pb.PipelineConfig{}},
		"an empty document":      {Pipeline: document("")},
		"a goal twice":           {Goals: []string{"g", "g"}},
		"a file":                 {Pipeline: document("name: p\nagents: [{name: a, model: {name: m, prompt_file: /etc/passwd}}]")},
		"a text that is no text": {MetadataJson: []byte("\"\xff\"")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CreateEnvelope(c.ctx(), req)
			wantCode(t, err, codes.InvalidArgument, "")
		})
	}
}

// A document that cannot be read says where it breaks off.
func TestADocumentThatCannotBeReadSaysWhere(t *testing.T) {
	c := common(t).as("alice")
	_, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "x", Pipeline: document("name: p\nagents: [{name: a\n")})
	wantCode(t, err, codes.InvalidArgument, tipstaff.InvalidProgram)
	if bad := violations(err); len(bad) == 0 || bad[0].Reason != "syntax" {
		t.Errorf("it is told as %v", bad)
	}
}

func TestADraftIsUpdated(t *testing.T) {
	c := common(t).as("alice")
	env := c.create("name: p\nagents: [{name: a, output_key: result, scripted: {answers: [{output: {}}]}}, {name: b, scripted: {answers: [{output: {}}]}}]")
	changed, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId, Outputs: map[string][]byte{"b": []byte(`{"x": 1.0}`)}},
		AgentName: "a", Output: []byte(`{"ok": true}`), ExpectedVersion: env.Version, MetadataJson: []byte(`{"k": null, "m": [1]}`),
		Usage: &pb.Usage{LlmCalls: 2, TokensIn: 5, CostUsd: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if string(changed.Outputs["result"]) != `{"ok":true}` || string(changed.Outputs["b"]) != `{"x":1.0}` || changed.Version != env.Version+1 ||
		changed.LlmCallCount != 2 || changed.TokensIn != 5 || changed.CostUsd != 7 || string(changed.MetadataJson) != `{"m":[1]}` {
		t.Errorf("the draft is %v", changed)
	}
	left, err := c.CheckBounds(c.ctx(), &pb.Envelope{EnvelopeId: env.EnvelopeId})
	if err != nil || left.LlmCallsRemaining != 8 || left.Version != changed.Version {
		t.Errorf("%v, %v", left, err)
	}
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: env, ExpectedVersion: env.Version})
	wantCode(t, err, codes.Aborted, tipstaff.VersionStale)
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: env, AgentName: "nobody", Output: []byte(`{}`)})
	wantCode(t, err, codes.NotFound, tipstaff.AgentNotFound)
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: env, Usage: &pb.Usage{LlmCalls: -1}})
	wantCode(t, err, codes.InvalidArgument, "")
	// Who says nothing of a version changes nothing unseen; a view tells which one it is of.
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}, RemoveOutputs: []string{"b"}})
	wantCode(t, err, codes.InvalidArgument, "")
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId, Version: env.Version}, RemoveOutputs: []string{"b"}})
	wantCode(t, err, codes.Aborted, tipstaff.VersionStale)
	less, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId, Version: changed.Version}, RemoveOutputs: []string{"b"}})
	if err != nil || less.Outputs["b"] != nil || less.Outputs["result"] == nil {
		t.Errorf("%v, %v", less, err)
	}
}

// Use that a counter cannot hold is refused, and the draft stays as it was.
func TestUseThatCannotBeCountedIsRefused(t *testing.T) {
	c := common(t).as("alice")
	made := c.create(straight)
	env, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: made, Usage: &pb.Usage{LlmCalls: 1_000_000, TokensIn: 1<<62 - 1, CostUsd: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]*pb.Usage{
		"more calls than can be made": {LlmCalls: math.MaxInt32},
		"more tool calls":             {ToolCalls: 1_000_001},
		"one more token":              {TokensIn: 1},
		"all tokens":                  {TokensOut: math.MaxInt64},
		"all money":                   {CostUsd: math.MaxInt64},
		"less than nothing":           {TokensOut: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: env, Usage: u})
			wantCode(t, err, codes.InvalidArgument, "")
		})
	}
	now, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env)})
	if err != nil || now.LlmCallCount != 1_000_000 || now.TokensIn != 1<<62-1 || now.CostUsd != 1 || now.Version != env.Version {
		t.Errorf("%v, %v", now, err)
	}
}

// An Envelope that could not be kept is refused when it is made.
func TestTooLargeEnvelopesAreRefusedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	c := common(t).as("alice")
	for name, req := range map[string]*pb.CreateEnvelopeRequest{
		"text":     {RawInput: strings.Repeat("x", 13<<20)},
		"escapes":  {RawInput: strings.Repeat("\x01", 3<<20)}, // six characters each
		"metadata": {MetadataJson: []byte(`{"m": "` + strings.Repeat("x", 13<<20) + `"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CreateEnvelope(c.ctx(), req)
			wantCode(t, err, codes.ResourceExhausted, tipstaff.LimitReached)
			if !strings.Contains(fmt.Sprint(err), "12582912 are the most") {
				t.Errorf("the limit is not told: %v", err)
			}
		})
	}
	large, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: strings.Repeat("x", 11<<20)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: large.EnvelopeId}, ExpectedVersion: 1, MetadataJson: []byte(`{"m": "` + strings.Repeat("x", 2<<20) + `"}`)})
	wantCode(t, err, codes.ResourceExhausted, tipstaff.LimitReached)
}

func TestOnlyDraftsAreUpdated(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(straight)
	c.execute(env)
	_, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}, MetadataJson: []byte(`{}`)})
	wantCode(t, err, codes.FailedPrecondition, "")
}

func TestReferencesThatLeadNowhere(t *testing.T) {
	c := common(t).as("alice")
	nobody := tipstaff.NewID(timeOf(t)).String()
	for name, tc := range map[string]struct {
		ref  *pb.RunRef
		code codes.Code
	}{
		"none":                   {nil, codes.InvalidArgument},
		"an empty one":           {&pb.RunRef{}, codes.InvalidArgument},
		"no id":                  {byRun("../x"), codes.InvalidArgument},
		"no id of an Envelope":   {&pb.RunRef{Ref: &pb.RunRef_EnvelopeId{EnvelopeId: "env_../x"}}, codes.InvalidArgument},
		"nobody's run":           {byRun(nobody), codes.NotFound},
		"nobody's Envelope":      {&pb.RunRef{Ref: &pb.RunRef_EnvelopeId{EnvelopeId: "env_" + nobody}}, codes.NotFound},
		"a thread without a run": {&pb.RunRef{Ref: &pb.RunRef_ThreadId{ThreadId: "nothing-here"}}, codes.NotFound},
		"an empty thread":        {&pb.RunRef{Ref: &pb.RunRef_ThreadId{}}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: tc.ref})
			wantCode(t, err, tc.code, "")
		})
	}
}
