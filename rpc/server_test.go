package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

const secret = "the-secret-of-alice"

// run is what the Service of these tests has.
var run = tipstaff.NewID(time.UnixMilli(1_700_000_000_000))

// stub is a Service that does what a test says. What it says nothing of panics.
type stub struct {
	tipstaff.Service
	get    func() (tipstaff.Run, error)
	events []tipstaff.Event
}

func (s *stub) Get(context.Context, tipstaff.ID) (tipstaff.Run, error) { return s.get() }

func (s *stub) Events(context.Context, tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *stub) Artifact(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte(`{"a": 1}`), nil
}

func (s *stub) Wait(context.Context, tipstaff.ID) (tipstaff.Driven, error) {
	return tipstaff.Driven{Err: tipstaff.Errorf(tipstaff.StoreFull, "no room")}, nil
}

func (s *stub) Envelope(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte(`{"schema": 1, "envelope_id": "env_` + run.String() + `"}`), nil
}

// listening is a server, and its address.
func listening(t *testing.T, svc tipstaff.Service) (*Server, string) {
	t.Helper()
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	s := New(svc, nil, Options{Tokens: tokens})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, l.Addr().String()
}

func newServer(t *testing.T, svc tipstaff.Service) (*Server, pb.CoreServiceClient) {
	t.Helper()
	s, address := listening(t, svc)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return s, pb.NewCoreServiceClient(conn)
}

func withToken(token string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", token)
}

func state(c pb.CoreServiceClient, ctx context.Context) error {
	_, err := c.GetState(ctx, &pb.GetStateRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_RunId{RunId: run.String()}}})
	return err
}

// What is told and not recorded passes to those who ask for it, and moves no cursor.
func TestTransientsPass(t *testing.T) {
	svc := &stub{get: func() (tipstaff.Run, error) {
		return tipstaff.Run{ID: run, State: tipstaff.Completed, HeadSeq: 5, Pipeline: &tipstaff.PipelineStatus{}}, nil
	}, events: []tipstaff.Event{
		{Seq: 4, Kind: tipstaff.KindStageStarted, Path: "write#1", Run: run, Body: []byte(`{"stage":"write","visit":1}`)},
		{Kind: tipstaff.KindAgentTextDelta, Path: "write#1/model#1", Run: run, Body: []byte(`{"step":1,"channel":"answer","offset":0,"text":"He"}`)},
		{Kind: tipstaff.KindToolProgress, Path: "write#1/tool#1", Run: run, Body: []byte(`{"progress":1,"total":2}`)},
		{Seq: 5, Kind: tipstaff.KindStageFinished, Path: "write#1", Run: run, Body: []byte(`{"stage":"write","visit":1,"outcome":"success"}`)},
	}}
	_, c := newServer(t, svc)
	for wanted, want := range map[bool]string{false: "STAGE_STARTED 4, STAGE_COMPLETED 5", true: "STAGE_STARTED 4, TEXT_DELTA 4 passes, TOOL_PROGRESS 4 passes, STAGE_COMPLETED 5"} {
		stream, err := c.Watch(withToken("Bearer "+secret), &pb.WatchRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_RunId{RunId: run.String()}}, Follow: true, Transients: wanted})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			e, err := stream.Recv()
			if err != nil {
				break
			}
			text := fmt.Sprint(e.Type, " ", e.Seq)
			if e.Transient {
				text += " passes"
			}
			got = append(got, text)
			if e.Stage != "write" || e.Type == pb.ExecutionEvent_TEXT_DELTA && !strings.Contains(string(e.Payload), `"text":"He"`) {
				t.Errorf("%v", e)
			}
		}
		if strings.Join(got, ", ") != want || stream.Trailer().Get(lastSeqTrailer)[0] != "5" {
			t.Errorf("got %v, want %s; %v", got, want, stream.Trailer())
		}
	}
}

// What is blocked at a delivery is not offered.
func TestBlockedActionsAreNotListed(t *testing.T) {
	subject := `{"commit":"c1","blocked":[{"action":"apply","code":"target_dirty","reason":"changes"}]}`
	g := tipstaff.Gate{ID: run, Kind: tipstaff.Delivery, Key: "delivery#1", Actions: []string{"approve", "apply", "halt"}, Subject: []byte(subject)}
	if got := interruptOf(g); strings.Join(got.Actions, " ") != "approve halt" {
		t.Errorf("the interrupt offers %v", got.Actions)
	}
	opened := tipstaff.Event{Seq: 9, Kind: tipstaff.KindPolicyGate, Path: "delivery#1", Run: run,
		Body: []byte(`{"gate":"` + run.String() + `","gate_kind":"delivery","question":"?","actions":["approve","apply","halt"],"subject":` + subject + `}`)}
	s := &Server{svc: &stub{}}
	e, err := s.event(t.Context(), opened)
	if err != nil || !strings.Contains(string(e.Payload), `"actions":["approve","halt"]`) {
		t.Errorf("%s, %v", e.GetPayload(), err)
	}
}

func TestAPanicIsOneCallsFault(t *testing.T) {
	svc := &stub{get: func() (tipstaff.Run, error) { panic("a secret of the server") }}
	_, c := newServer(t, svc)
	for range 2 {
		err := state(c, withToken("Bearer "+secret))
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("a panic is told as %v", err)
		}
	}
}

func TestTokens(t *testing.T) {
	_, c := newServer(t, &stub{get: func() (tipstaff.Run, error) { return tipstaff.Run{}, tipstaff.Errorf(tipstaff.RunNotFound, "no") }})
	for token, want := range map[string]codes.Code{
		"Bearer " + secret:       codes.NotFound,
		"bearer " + secret:       codes.NotFound,
		"Bearer " + secret + "x": codes.Unauthenticated,
		"Basic " + secret:        codes.Unauthenticated,
		secret:                   codes.Unauthenticated,
		"Bearer":                 codes.Unauthenticated,
		"":                       codes.Unauthenticated,
	} {
		if err := state(c, withToken(token)); status.Code(err) != want {
			t.Errorf("%q: %v, want %s", token, err, want)
		}
	}
	twice := metadata.AppendToOutgoingContext(withToken("Bearer "+secret), "authorization", "Bearer other")
	if err := state(c, twice); status.Code(err) != codes.Unauthenticated {
		t.Errorf("two tokens: %v", err)
	}
}

func TestErrorsKeepTheirCodeAndInternalOnesTheirText(t *testing.T) {
	s := New(nil, nil, Options{})
	for code, want := range statusOf {
		err := s.status(context.Background(), tipstaff.Errorf(code, "the text").WithHint("the advice"))
		st := status.Convert(err)
		if st.Code() != want {
			t.Errorf("%s is %s, want %s", code, st.Code(), want)
		}
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		if !ok || info.Reason != string(code) || info.Domain != "tipstaff" {
			t.Errorf("%s is told as %v", code, st.Details())
		}
		if told := strings.Contains(st.Message(), "the text"); told == (want == codes.Internal) {
			t.Errorf("%s says %q", code, st.Message())
		}
	}
	for err, want := range map[error]codes.Code{
		errors.New("a secret"):                            codes.Internal,
		context.DeadlineExceeded:                          codes.DeadlineExceeded,
		context.Canceled:                                  codes.Canceled,
		status.Error(codes.ResourceExhausted, "enough"):   codes.ResourceExhausted,
		tipstaff.Errorf("of another version", "a secret"): codes.Internal,
	} {
		got := s.status(context.Background(), err)
		if status.Code(got) != want || strings.Contains(got.Error(), "secret") {
			t.Errorf("%v is told as %v, want %s", err, got, want)
		}
	}
	s.quiesce()
	if got := s.status(context.Background(), errors.New("the store is closed")); status.Code(got) != codes.Unavailable {
		t.Errorf("what breaks while the server stops is told as %v", got)
	}
}

// taken is a reader that takes everything.
type taken struct{ events []*pb.ExecutionEvent }

func (r *taken) Send(e *pb.ExecutionEvent) error { r.events = append(r.events, e); return nil }
func (r *taken) SetTrailer(metadata.MD)          {}

func record(seq int64, kind tipstaff.Kind, path, body string) tipstaff.Event {
	return tipstaff.Event{Seq: seq, Kind: kind, Run: run, Path: path, Body: json.RawMessage(body), At: time.UnixMilli(seq)}
}

// A run that was about to go on when the server stopped has not come to rest: its stream
// does not end well, whatever it is called.
func TestWhatWaitsForItsTurnHasNotComeToRest(t *testing.T) {
	resolved := record(4, tipstaff.KindPolicyGateResolve, "a#1/approval", `{"gate": "G", "action": "allow"}`)
	for _, status := range []string{tipstaff.StatusQueued, tipstaff.StatusAwaitingResume} {
		s := New(&stub{events: []tipstaff.Event{resolved}, get: func() (tipstaff.Run, error) {
			return tipstaff.Run{ID: run, State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: status, HeadSeq: 4}, nil
		}}, nil, Options{})
		got := &taken{}
		s.quiesce()
		err := s.rest(context.Background(), watching{run: run, follow: true}, &teller{s: s, out: got, run: run, held: &pb.ExecutionEvent{Seq: 4, Type: pb.ExecutionEvent_INTERRUPT_RESOLVED}})
		if !errors.Is(err, errStopping) || len(got.events) != 1 || got.events[0].Final {
			t.Errorf("%s: the stream ends with %v after %v", status, err, got.events)
		}
	}
}

// TestWhatWasAskedIsTheEnd: a question that branches beside it have left behind is
// told again at the end, and nothing is told out of order.
func TestWhatWasAskedIsTheEnd(t *testing.T) {
	gate := record(3, tipstaff.KindPolicyGate, "a#1/approval", `{"gate": "G", "gate_kind": "approval", "question": "May it?", "actions": ["allow", "deny"]}`)
	beside := record(4, tipstaff.KindStageFinished, "b#1", `{"stage": "b", "outcome": "success"}`)
	parked := record(5, tipstaff.KindRunParked, "", `{}`)
	open := []tipstaff.Gate{{ID: run, Kind: tipstaff.Approval, Key: "a#1/approval", Path: "a#1", Question: "May it?", Actions: []string{"allow", "deny"}}}
	for name, tc := range map[string]struct {
		events []tipstaff.Event
		want   []int64
	}{
		"asked last":       {[]tipstaff.Event{gate, parked}, []int64{3}},
		"something beside": {[]tipstaff.Event{gate, beside, parked}, []int64{3, 4, 5}},
		"nothing new":      {nil, []int64{5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(&stub{events: tc.events, get: func() (tipstaff.Run, error) {
				return tipstaff.Run{ID: run, State: tipstaff.Executing, Condition: tipstaff.Waiting, OpenGates: open, HeadSeq: 5}, nil
			}}, nil, Options{})
			got := &taken{}
			if err := s.watch(context.Background(), watching{run: run, follow: true}, got); err != nil {
				t.Fatal(err)
			}
			for i, e := range got.events {
				last := i == len(got.events)-1
				if len(got.events) != len(tc.want) || e.Seq != tc.want[i] || e.Final != last {
					t.Fatalf("event %d of %d has seq %d, final %t", i, len(got.events), e.Seq, e.Final)
				}
				if last && (e.Type != pb.ExecutionEvent_INTERRUPT_RAISED || e.Stage != "a" || !strings.Contains(string(e.Payload), "May it?")) {
					t.Errorf("the last event is %v", e)
				}
			}
		})
	}
}

func TestAnInterruptedRunIsNoEnd(t *testing.T) {
	s := New(&stub{get: func() (tipstaff.Run, error) {
		return tipstaff.Run{ID: run, State: tipstaff.Executing, Condition: tipstaff.Interrupted}, nil
	}}, nil, Options{})
	err := s.watch(context.Background(), watching{run: run, follow: true}, &taken{})
	if tipstaff.CodeOf(err) != tipstaff.WrongState {
		t.Errorf("it is told as %v", err)
	}
	if err := s.watch(context.Background(), watching{run: run, follow: true, began: true}, &taken{}); tipstaff.CodeOf(err) != tipstaff.StoreFull {
		t.Errorf("it is told as %v", err)
	}
}

func TestWhatAResponseMeans(t *testing.T) {
	text, yes, no := proto.String("words"), proto.Bool(true), proto.Bool(false)
	confirmation := tipstaff.Gate{Kind: tipstaff.Confirmation, Actions: []string{"approve", "modify", "reject"}}
	question := tipstaff.Gate{Kind: tipstaff.Question, Actions: []string{"answer", "deny"}}
	handoff := tipstaff.Gate{Kind: tipstaff.Handoff, Actions: []string{"retry_feedback", "continue", "halt"}}
	for name, tc := range map[string]struct {
		gate tipstaff.Gate
		r    *pb.InterruptResponse
		want tipstaff.DecideRequest // Action "": it is refused
	}{
		"yes":                    {confirmation, &pb.InterruptResponse{Approved: yes}, tipstaff.DecideRequest{Action: "approve"}},
		"no":                     {confirmation, &pb.InterruptResponse{Approved: no, Text: text}, tipstaff.DecideRequest{Action: "reject", Note: "words"}},
		"yes with data":          {confirmation, &pb.InterruptResponse{Decision: proto.String("modify"), Data: []byte("1")}, tipstaff.DecideRequest{Action: "modify", Answer: json.RawMessage("1")}},
		"yes to a question":      {question, &pb.InterruptResponse{Approved: yes, Text: text}, tipstaff.DecideRequest{Action: "answer", Answer: json.RawMessage(`"words"`)}},
		"no to a question":       {question, &pb.InterruptResponse{Approved: no}, tipstaff.DecideRequest{Action: "deny"}},
		"an answer":              {question, &pb.InterruptResponse{Data: []byte("[1]")}, tipstaff.DecideRequest{Action: "answer", Answer: json.RawMessage("[1]")}},
		"an empty text":          {question, &pb.InterruptResponse{Text: proto.String("")}, tipstaff.DecideRequest{Action: "answer", Answer: json.RawMessage(`""`)}},
		"feedback":               {handoff, &pb.InterruptResponse{Decision: proto.String("retry_feedback"), Text: text}, tipstaff.DecideRequest{Action: "retry_feedback", Feedback: "words"}},
		"nothing":                {confirmation, &pb.InterruptResponse{Note: text}, tipstaff.DecideRequest{}},
		"yes, and reject":        {confirmation, &pb.InterruptResponse{Approved: yes, Decision: proto.String("reject")}, tipstaff.DecideRequest{}},
		"no, and approve":        {confirmation, &pb.InterruptResponse{Approved: no, Decision: proto.String("approve")}, tipstaff.DecideRequest{}},
		"two answers":            {question, &pb.InterruptResponse{Text: text, Data: []byte("1")}, tipstaff.DecideRequest{}},
		"a text beside the note": {confirmation, &pb.InterruptResponse{Approved: yes, Text: text, Note: text}, tipstaff.DecideRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			var d tipstaff.DecideRequest
			err := answer(tc.gate, tc.r, &d)
			if tc.want.Action == "" {
				if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
					t.Errorf("it is told as %v, %+v", err, d)
				}
				return
			}
			if err != nil || d.Action != tc.want.Action || string(d.Answer) != string(tc.want.Answer) || d.Feedback != tc.want.Feedback || d.Note != tc.want.Note {
				t.Errorf("it means %+v, %v", d, err)
			}
		})
	}
}

func TestStreamsOfOnePrincipalAreCounted(t *testing.T) {
	var c streamCount
	for range maxStreams {
		if !c.add("alice") {
			t.Fatal("one of those that may be was refused")
		}
	}
	if c.add("alice") || !c.add("bob") {
		t.Error("one more was let in, or another's was not")
	}
	c.done("alice")
	if !c.add("alice") {
		t.Error("the place of one that ended was not given again")
	}
}

func TestSameJSON(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, `{ "b": [true, null], "a": 1 }`, true},
		{`1.0`, `1.00`, true}, {`1e2`, `100.0`, true}, {`1`, `1.0`, false}, {`1`, `2`, false},
		{`9007199254740993`, `9007199254740992`, false}, {`1e999999999`, `2e999999999`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false}, {`[1,2]`, `[2,1]`, false}, {`null`, `{}`, false}, {`"a"`, `"\u0061"`, true}, {`{`, `{}`, false},
	} {
		if sameJSON([]byte(tc.a), []byte(tc.b)) != tc.want {
			t.Errorf("%s and %s: want %t", tc.a, tc.b, tc.want)
		}
	}
}

// FuzzEvent: whatever a record holds, clients are told of it in JSON, or the reader
// learns that it cannot be read.
func FuzzEvent(f *testing.F) {
	for kind := range shapes {
		f.Add(string(kind), "critic#3.2/model#1", `{"stage": "critic", "gate": "G", "gate_kind": "question", "subject": {"message": "m"}, "rule": 1}`)
	}
	f.Add("stage.finished", "", `{"output": {"$blob": "sha256:00"}}`)
	f.Add("policy.gate", "/", `[]`)
	s := New(&stub{}, nil, Options{})
	f.Fuzz(func(t *testing.T, kind, path, body string) {
		e, err := s.event(context.Background(), record(7, tipstaff.Kind(kind), path, body))
		if err != nil || e == nil {
			return
		}
		var payload map[string]json.RawMessage
		if err := json.Unmarshal(e.Payload, &payload); err != nil || payload == nil {
			t.Errorf("%s %q gives the payload %q", kind, body, e.Payload)
		}
		if e.Seq != 7 || e.RunId != run.String() || strings.ContainsAny(e.Stage, "/#") && !strings.Contains(body, "stage") {
			t.Errorf("%s %q gives %v", kind, body, e)
		}
	})
}
