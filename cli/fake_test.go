package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

var (
	epoch = time.Date(2026, 11, 15, 2, 30, 0, 0, time.UTC)
	runA  = mustID("01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
	runB  = mustID("01JCQ8R4T5V6W7X8Y9Z0A1B2D4")
	gateA = mustID("01JCQ8R4T5V6W7X8Y9Z0A1B2G1")
)

func mustID(s string) tipstaff.ID {
	id, err := tipstaff.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// fakeService answers as scripted. A method without a script panics: the command
// under test has no business there.
type fakeService struct {
	tipstaff.Service // what has no script

	start  func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error)
	resume func(context.Context, tipstaff.ResumeRequest) (tipstaff.Started, error)
	decide func(tipstaff.DecideRequest) (tipstaff.Decided, error)
	cancel func(tipstaff.CancelRequest) (tipstaff.Run, error)
	fork   func(tipstaff.ForkRequest) (tipstaff.Run, error)
	roll   func(tipstaff.RollbackRequest) (tipstaff.Run, error)
	draft  func(tipstaff.DraftRequest) (tipstaff.Started, error)
	check  func(tipstaff.ValidateRequest) (tipstaff.Validated, error)
	amend  func(tipstaff.CorrectRequest) (tipstaff.Corrected, error)
	verify func(tipstaff.VerifyRequest) (tipstaff.Report, error)
	refuse func(tipstaff.DecideRequest) error // an answer to the open gate; nil: it never does
	getErr error
	pageOf int // runs a page; 0: all

	artifacts map[string]string // by their digests

	runs    []tipstaff.Run
	heads   []tipstaff.Run // the last turns of sessions
	got     []tipstaff.ID
	listed  []tipstaff.ListRequest
	callers []tipstaff.Caller

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a record or a state changes
	log     []tipstaff.Event
	told    []saying
	driven  bool // by a living owner: following goes on
	ended   chan tipstaff.Driven
	answer  chan *tipstaff.DecideRequest // that a gate waits for; nil in it: there is none
}

// saying is an event that was told and not recorded, after so many records.
type saying struct {
	after int64
	event tipstaff.Event
}

func (s *fakeService) Start(ctx context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
	s.callers = append(s.callers, tipstaff.CallerFrom(ctx))
	return s.start(ctx, r)
}

func (s *fakeService) Resume(ctx context.Context, r tipstaff.ResumeRequest) (tipstaff.Started, error) {
	return s.resume(ctx, r)
}

func (s *fakeService) Draft(_ context.Context, r tipstaff.DraftRequest) (tipstaff.Started, error) {
	return s.draft(r)
}

func (s *fakeService) Validate(_ context.Context, r tipstaff.ValidateRequest) (tipstaff.Validated, error) {
	return s.check(r)
}

func (s *fakeService) Correct(_ context.Context, r tipstaff.CorrectRequest) (tipstaff.Corrected, error) {
	return s.amend(r)
}

func (s *fakeService) Rollback(_ context.Context, r tipstaff.RollbackRequest) (tipstaff.Run, error) {
	return s.roll(r)
}

// Wait returns when the drive has ended that drives began.
func (s *fakeService) Wait(ctx context.Context, _ tipstaff.ID) (tipstaff.Driven, error) {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	select {
	case d := <-ended:
		return d, nil
	case <-ctx.Done():
		return tipstaff.Driven{}, ctx.Err()
	}
}

// put opens a gate, and returns when it is answered or deferred.
func (s *fakeService) put(g tipstaff.Gate) (tipstaff.DecideRequest, bool) {
	answer := make(chan *tipstaff.DecideRequest, 1)
	g.ID = tipstaff.NewID(time.Now())
	s.mu.Lock()
	s.answer = answer
	s.mu.Unlock()
	s.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running, OpenGates: []tipstaff.Gate{g}})
	s.append(tipstaff.KindPolicyGate, g.Key, fmt.Sprintf(`{"gate":%q,"question":%q}`, g.ID, g.Question))
	given := <-answer
	s.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running})
	if given == nil {
		return tipstaff.DecideRequest{}, false
	}
	return *given, true
}

// Defer leaves the open gate without an answer.
func (s *fakeService) Defer(context.Context, tipstaff.ID, tipstaff.ID) error {
	s.reply(nil)
	return nil
}

// reply answers the open gate, and reports whether there is one.
func (s *fakeService) reply(r *tipstaff.DecideRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil {
		return false
	}
	s.answer <- r
	s.answer = nil
	return true
}

func (s *fakeService) Get(_ context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	if s.getErr != nil {
		return tipstaff.Run{}, s.getErr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, id)
	for _, r := range s.runs {
		if r.ID == id {
			return r, nil
		}
	}
	return tipstaff.Run{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run %s", id).WithHint("tipstaff ls lists the runs")
}

func (s *fakeService) List(_ context.Context, req tipstaff.ListRequest) (page tipstaff.RunPage, err error) {
	s.listed = append(s.listed, req)
	limit := req.Limit
	if limit == 0 {
		limit = s.pageOf
	}
	if req.Heads {
		begun := req.Before.IsZero()
		for _, r := range s.heads {
			switch {
			case !begun:
				begun = r.ID == req.Before
			case !strings.HasPrefix(r.Turn.Session, req.Prefix):
			case limit > 0 && len(page.Runs) == limit:
				page.Next = page.Runs[limit-1].ID
				return page, nil
			default:
				page.Runs = append(page.Runs, r)
			}
		}
		return page, nil
	}
	for _, r := range s.runs {
		switch {
		case !req.Before.IsZero() && r.ID.String() >= req.Before.String():
		case !strings.HasPrefix(r.ID.String(), req.Prefix):
		case req.Session != "" && (r.Turn == nil || r.Turn.Session != req.Session):
		case limit > 0 && len(page.Runs) == limit:
			page.Next = page.Runs[limit-1].ID
			return page, nil
		default:
			page.Runs = append(page.Runs, r)
		}
	}
	return page, nil
}

func (s *fakeService) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		s.mu.Lock()
		bare := len(s.log) == 0
		s.mu.Unlock()
		if r, err := s.Get(ctx, req.Run); err == nil && bare && !req.Follow && r.HeadSeq > req.After {
			yield(tipstaff.Event{Seq: r.HeadSeq, Kind: tipstaff.KindRunStarted, Run: r.ID}, nil) // a run of which only the head matters
			return
		}
		next, heard := req.After, 0
		for {
			s.mu.Lock()
			var batch []tipstaff.Event
			for _, ev := range s.log {
				if ev.Seq > next {
					batch = append(batch, ev)
				}
				for ; req.Follow && heard < len(s.told) && s.told[heard].after == ev.Seq; heard++ {
					batch = append(batch, s.told[heard].event)
				}
			}
			head, driven, changed := int64(len(s.log)), s.driven, s.changed
			s.mu.Unlock()
			if req.After > head {
				yield(tipstaff.Event{}, tipstaff.Errorf(tipstaff.CursorBeyondHead, "the run has %d records", head))
				return
			}
			for _, ev := range batch {
				if !yield(ev, nil) {
					return
				}
				next = max(next, ev.Seq)
			}
			if !req.Follow || !driven && len(batch) == 0 {
				return
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(tipstaff.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (s *fakeService) Gate(_ context.Context, run tipstaff.ID, gate string) (tipstaff.Gate, error) {
	for _, r := range s.runs {
		for _, g := range r.OpenGates {
			if r.ID == run && (g.Key == gate || g.ID.String() == gate) {
				shown := tipstaff.WholeSubject(g)
				g.Shown = &shown
				return g, nil
			}
		}
	}
	return tipstaff.Gate{}, tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %s", run, gate)
}

func (s *fakeService) Inbox(_ context.Context, req tipstaff.InboxRequest) (page tipstaff.InboxPage, err error) {
	for _, r := range s.runs {
		for _, g := range r.OpenGates {
			page.Gates = append(page.Gates, tipstaff.InboxGate{Run: r.ID, Title: nameOf(r), Gate: g})
		}
	}
	slices.SortStableFunc(page.Gates, func(a, b tipstaff.InboxGate) int { return a.Gate.OpenedAt.Compare(b.Gate.OpenedAt) })
	for i, g := range page.Gates {
		if g.Gate.ID == req.After {
			page.Gates = page.Gates[i+1:]
			break
		}
	}
	if page.Total = len(page.Gates); page.Total > req.Limit {
		page.Gates, page.Next = page.Gates[:req.Limit], page.Gates[req.Limit-1].Gate.ID
	}
	return page, nil
}

func (s *fakeService) Decide(_ context.Context, r tipstaff.DecideRequest) (tipstaff.Decided, error) {
	if s.refuse != nil {
		if err := s.refuse(r); err != nil {
			return tipstaff.Decided{}, err
		}
	}
	if s.reply(&r) {
		return tipstaff.Decided{}, nil
	}
	return s.decide(r)
}

func (s *fakeService) Cancel(_ context.Context, r tipstaff.CancelRequest) (tipstaff.Cancellation, error) {
	run, err := s.cancel(r)
	return tipstaff.Cancellation{Run: run}, err
}

func (s *fakeService) Fork(_ context.Context, r tipstaff.ForkRequest) (tipstaff.Forked, error) {
	run, err := s.fork(r)
	return tipstaff.Forked{Run: run}, err
}

func (s *fakeService) Artifact(_ context.Context, _ tipstaff.ID, digest string) ([]byte, error) {
	if b, ok := s.artifacts[digest]; ok {
		return []byte(b), nil
	}
	return nil, tipstaff.Errorf(tipstaff.ArtifactNotFound, "there is no artifact %s", digest)
}

func (s *fakeService) Verify(_ context.Context, r tipstaff.VerifyRequest) (tipstaff.Report, error) {
	return s.verify(r)
}

// append writes a record.
func (s *fakeService) append(kind tipstaff.Kind, path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev := record(int64(len(s.log)+1), kind, path, body)
	s.log = append(s.log, ev)
	s.wake()
}

// tell tells those who follow something that is not recorded.
func (s *fakeService) tell(path, body string) { s.tellOf(tipstaff.KindToolProgress, path, body) }

func (s *fakeService) tellOf(kind tipstaff.Kind, path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := int64(len(s.log))
	s.told = append(s.told, saying{after, tipstaff.Event{V: 1, Kind: kind, At: epoch, Run: runA, Path: path, Body: json.RawMessage(body)}})
	s.wake()
}

// forget makes room for the records of another run.
func (s *fakeService) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.told = nil, nil
}

// own says whether somebody drives the run.
func (s *fakeService) own(driven bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.driven = driven
	s.wake()
}

func (s *fakeService) wake() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// set replaces the run of that id.
func (s *fakeService) set(r tipstaff.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		if s.runs[i].ID == r.ID {
			s.runs[i] = r
			return
		}
	}
	s.runs = append(s.runs, r)
}

// drives makes a Started whose drive is f, which ends when f returns.
func (s *fakeService) drives(f func() tipstaff.Driven) tipstaff.Started {
	s.ends()
	s.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running})
	s.own(true)
	go func() {
		d := f()
		s.own(false)
		s.ended <- d
	}()
	return tipstaff.Started{Run: runA, Validated: notes()}
}

// ends makes a new end to wait for.
func (s *fakeService) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = make(chan tipstaff.Driven, 1)
}

func notes() tipstaff.Validated {
	return tipstaff.Validated{Program: tipstaff.Program{Kind: "plan", Name: "notes", Digest: "sha256:p"}, Outline: notesOutline()}
}

func record(seq int64, kind tipstaff.Kind, path, body string) tipstaff.Event {
	ev := tipstaff.Event{V: 1, Seq: seq, Kind: kind, At: epoch.Add(time.Duration(seq) * time.Second), Run: runA, Path: path, Body: json.RawMessage(body)}
	ev.Raw = fmt.Appendf(nil, `{"seq":%d,"kind":%q,"path":%q,"body":%s,"v":1}`, seq, kind, path, body)
	return ev
}

func notesOutline() *tipstaff.Outline {
	return &tipstaff.Outline{Path: "root", Kind: "sequential", Children: []*tipstaff.Outline{
		{Path: "root/read", ID: "read", Kind: "tool_call", Label: "mcp://builtin/read_file@1.0.0", Class: "read"},
		{Path: "root/ok", ID: "ok", Kind: "gate", Label: "Publish?"},
	}}
}

func publishGate() tipstaff.Gate {
	return tipstaff.Gate{
		ID: gateA, Kind: tipstaff.Question, Key: "root/ok", Path: "root/ok", Question: "Publish?",
		Subject: json.RawMessage(`{"show":{"notes":"all is well"}}`), Digest: "sha256:d1",
		Actions: []string{"approve", "deny"}, Deny: "deny", OpenedAt: epoch,
	}
}

// completes is a run of one read that ends well.
func completes(s *fakeService) func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
	return func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return s.drives(func() tipstaff.Driven {
			s.append("run.started", "", `{}`)
			s.append("effect.finished", "root/read", `{"ms":12,"value":1}`)
			s.append("plan.step", "root/read", `{"node":"read","status":"completed","latency_ms":12}`)
			s.append("intent.attest", "", `{"outcome":"success"}`)
			s.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: 4, Head: "sha256:h4", Outputs: json.RawMessage(`{"n":1}`)})
			return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
		}), nil
	}
}

// asks is a run that waits at a gate, asks if there is someone to ask, and parks
// if there is no answer.
func asks(s *fakeService) func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
	return func(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		return s.drives(func() tipstaff.Driven {
			s.append("run.started", "", `{}`)
			if !req.Attended {
				s.append("policy.gate", "root/ok", fmt.Sprintf(`{"gate":%q,"question":"Publish?"}`, gateA))
			} else {
				if c, ok := s.put(publishGate()); ok {
					s.append("policy.gate.resolve", "root/ok", fmt.Sprintf(`{"gate":%q,"action":%q,"via":"terminal"}`, gateA, c.Action))
					s.append("plan.step", "root/ok", `{"status":"completed"}`)
					s.append("intent.attest", "", `{"outcome":"success"}`)
					s.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: 5, Head: "sha256:h5"})
					return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
				}
			}
			s.append("run.parked", "", `{}`)
			s.set(waitingRun())
			return tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked", Gates: []string{gateA.String()}}
		}), nil
	}
}

func waitingRun() tipstaff.Run {
	return tipstaff.Run{
		ID: runA, State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: "awaiting_decision", HeadSeq: 3, Head: "sha256:h3",
		Program: tipstaff.Program{Kind: "plan", Name: "notes"}, OpenGates: []tipstaff.Gate{publishGate()}, CreatedAt: epoch,
	}
}

// bench is one invocation with everything around it under control.
type bench struct {
	svc      *fakeService
	memory   *fakeMemory
	sessions tipstaff.Sessions
	tasks    *fakeTasks
	env      *Env
	out, err *lockedBuffer
	opened   []OpenOptions
	closed   int
	vars     map[string]string
	attach   func(tipstaff.ID, []string, func(string)) (Attached, error)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{svc: &fakeService{}, out: &lockedBuffer{}, err: &lockedBuffer{}, vars: map[string]string{}}
	b.env = &Env{
		Stdin: strings.NewReader(""), Stdout: b.out, Stderr: b.err,
		Size:   func() (int, int) { return 60, 20 },
		Getenv: func(name string) string { return b.vars[name] },
		Open: func(_ context.Context, o OpenOptions) (Session, error) {
			b.opened = append(b.opened, o)
			return b, nil
		},
		Export: func(context.Context, tipstaff.Service, tipstaff.ID, string) error { return nil },
		Version: VersionInfo{Version: "1.2.3", Commit: "abc", Date: "2026-03-04T23:30:00Z", Go: "go1.26", OS: "linux", Arch: "arm64",
			Formats:   Formats{Journal: 1, Rules: 2, SQLite: 3, Postgres: 4},
			Protocols: Protocols{GRPC: []string{"a.v1", "b.v1"}, HTTP: "5", MCP: []string{"2026-02-02", "2026-01-01"}}},
	}
	return b
}

func (b *bench) Service() tipstaff.Service { return b.svc }
func (b *bench) Memory() tipstaff.Memory   { return b.memory }

func (b *bench) Sessions() tipstaff.Sessions { return b.sessions }
func (b *bench) Exit(int, error) error       { return nil }
func (b *bench) Page() string                { return "" }

func (b *bench) Changed() (<-chan struct{}, func()) { return nil, func() {} }

func (b *bench) Close() error          { b.closed++; return nil }
func (b *bench) Tasks() tipstaff.Tasks { return b.tasks }

func (b *bench) Attach(run tipstaff.ID, commands []string, tell func(string)) (Attached, error) {
	if b.attach == nil {
		panic("nobody should attach")
	}
	return b.attach(run, commands, tell)
}

// served has the runs of the bench stand at a server, 127.0.0.1:1, instead of the workspace.
func (b *bench) served() *bench {
	b.env.Open = func(context.Context, OpenOptions) (Session, error) {
		return nil, errors.New("the workspace was opened in place of the server")
	}
	b.env.Connect = func(context.Context, string, string) (Session, error) {
		b.opened = append(b.opened, OpenOptions{})
		return b, nil
	}
	b.vars["TIPSTAFF_SERVER"] = "127.0.0.1:1"
	return b
}

// terminal makes all three streams a terminal.
func (b *bench) terminal() *bench {
	b.env.StdinTTY, b.env.StdoutTTY, b.env.StderrTTY = true, true, true
	b.vars["NO_COLOR"] = "1"
	return b
}

// run runs a command line and checks its exit code.
func (b *bench) run(t *testing.T, want int, args ...string) {
	t.Helper()
	b.runContext(t, context.Background(), want, args...)
}

func (b *bench) runContext(t *testing.T, ctx context.Context, want int, args ...string) {
	t.Helper()
	if got := Main(ctx, args, b.env); got != want {
		t.Errorf("tipstaff %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), got, want, b.out, b.err)
	}
	if b.closed != len(b.opened) {
		t.Errorf("opened %d times, closed %d times", len(b.opened), b.closed)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func contains(t *testing.T, what, got string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(got, w) {
			t.Errorf("%s lacks %q:\n%s", what, w, got)
		}
	}
}

// typist is a terminal's keyboard: a line is there to be read after it was typed.
type typist struct {
	io.Reader
	w *io.PipeWriter
}

func newTypist() *typist {
	r, w := io.Pipe()
	return &typist{r, w}
}

func (k *typist) types(text string) { io.WriteString(k.w, text) }
