package worker

import (
	"context"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// memoryStore keeps a task and sessions. A dead one refuses every change, as if its process
// had been killed.
type memoryStore struct {
	mu       sync.Mutex
	sessions []tipstaff.WorkerSession
	dead     error
}

func (s *memoryStore) OpenTask(_ context.Context, _, _ string, t tipstaff.Task) (tipstaff.Task, error) {
	return t, nil
}

func (s *memoryStore) RunTask(context.Context, string, string) (tipstaff.Task, error) {
	return tipstaff.Task{ID: "010", Status: tipstaff.TaskInProgress, MaxIterations: 5}, nil
}

func (s *memoryStore) FindSession(_ context.Context, run, path string) (tipstaff.WorkerSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.sessions {
		if w.Run == run && w.Path == path {
			return w, nil
		}
	}
	return tipstaff.WorkerSession{}, tipstaff.Errorf(tipstaff.SessionUnknown, "there is none")
}

func (s *memoryStore) PutSession(_ context.Context, w tipstaff.WorkerSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		s.sessions = append(s.sessions, w)
	}
	return s.dead
}

func (s *memoryStore) UpdateSession(_ context.Context, id string, f func(*tipstaff.WorkerSession) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.sessions, func(w tipstaff.WorkerSession) bool { return w.ID == id })
	w := s.sessions[i]
	w.Previous, w.Invocations = slices.Clone(w.Previous), slices.Clone(w.Invocations)
	if err := errors.Join(s.dead, f(&w)); err != nil {
		return err
	}
	s.sessions[i] = w
	return nil
}

// die has the store refuse what follows; nil: it is another process's now.
func (s *memoryStore) die(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = why
}

// the is the session at the path of these tests.
func (s *memoryStore) the() tipstaff.WorkerSession {
	w, _ := s.FindSession(context.Background(), workRun, "root/work#1")
	return w
}

// change changes that session as somebody else would have.
func (s *memoryStore) change(f func(*tipstaff.WorkerSession)) {
	_ = s.UpdateSession(context.Background(), s.the().ID, func(w *tipstaff.WorkerSession) error { f(w); return nil })
}

// turns makes invocations of one session, by fake CLIs.
type turns struct {
	*bed
	store  *memoryStore
	host   *Host
	before func() // the CLI is started

	posture Posture
	policy  Policy
	left    int64    // of what the run may cost
	used    flow.Use // what the last invocation is charged
	notes   func(flow.Event)
}

func newTurns(t *testing.T, typ string, steps ...fakeStep) *turns {
	t.Helper()
	b := &turns{bed: newBed(t, typ, steps...), store: &memoryStore{}, before: func() {}, notes: func(flow.Event) {}, posture: ReadOnly, policy: allowAll, left: 1 << 40}
	t.Setenv("PATH", b.bin)
	b.host = &Host{Store: b.store, Self: flow.Owner{Host: "here", Pid: 1}, Alive: func(flow.Owner) bool { return true }, User: "local", Folder: t.TempDir(), Starter: b,
		Make:    func(Settled) (Worker, error) { return New(b.config) },
		Dir:     func(context.Context, Posture) (string, error) { return b.options.Dir, nil },
		Environ: func(Settled) ([]string, error) { return b.options.Env, nil },
		Policy:  func(*Local, string) Policy { return b.policy },
		Redact:  func(text []byte) []byte { return text },
		Watch: func(context.Context, string) (func(func(flow.Event)) ([]tipstaff.Notice, []string), error) {
			return func(func(flow.Event)) ([]tipstaff.Notice, []string) { return nil, nil }, nil
		},
		NewID: func() string { return tipstaff.NewID(time.Now()).String() }, Now: time.Now,
	}
	return b
}

// Start implements [Starter].
func (b *turns) Start(p Program) (Process, error) {
	if !slices.Contains(p.Args, "--version") {
		b.before()
	}
	return b.starter.Start(p)
}

// Containment implements [Starter].
func (b *turns) Containment() string { return b.starter.level }

// take makes an invocation: which attempt of which call.
func (b *turns) take(ctx context.Context, name string, n int) error {
	l := &Local{Assignment: Assignment{Settled: Settled{Worker: b.config.Name, Type: b.config.Type, Posture: b.posture, Limits: b.options.Limits}},
		TaskID: "010", Iteration: 1, Prompt: "do it", Again: "do it again", Path: "root/work", Session: 1}
	act := Activities(b.host)[name]
	left := func(bound string) (int64, bool) { return b.left, bound == tipstaff.BoundCostUSD }
	a := flow.Attempt{Run: workRun, Path: "root/work/worker#1", Name: name, N: n, Local: l, Tell: func(flow.Event) {},
		Note: func(e flow.Event) { b.notes(e) }, Sync: func() error { return nil },
		Left: left, Held: func(string) int64 { return 0 }, Spent: func(flow.Use) {}}
	a.Reserved = act.Wants(a, left)
	done, err := act.Run(ctx, a)
	b.used = done.Use
	return err
}

func (b *turns) must(name string, n int) {
	b.t.Helper()
	b.bed.must(b.take(b.t.Context(), name, n))
}

// last is how the fake was started last.
func (b *turns) last() string {
	all := b.seen()
	return strings.Join(all[len(all)-1].Args, " ")
}

func TestTheSessionIsStoredBeforeTheCLIStarts(t *testing.T) {
	b := newTurns(t, "claude", happy(reported)...)
	checked := 0
	b.before = func() {
		checked++
		w := b.store.the()
		if w.State != tipstaff.SessionNew || w.Lease == nil || *w.Lease != b.host.Self || len(w.Invocations) != 1 || !w.Invocations[0].Ended.IsZero() || w.Dir != b.options.Dir || w.Task != "010" {
			t.Errorf("when the CLI is started the session is %+v", w)
		}
		if info, err := os.Stat(w.Folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("its folder: %v, %v", info, err)
		}
	}
	b.must(SpawnActivity, 1)
	if w := b.store.the(); checked != 1 || w.State != tipstaff.SessionLive || w.SessionID != anID || w.Lease != nil || w.Invocations[0].Outcome != string(Reported) {
		t.Errorf("%d starts looked at; afterwards it is %+v", checked, w)
	}
}

// The process dies right behind the first thing that the CLI says: the id that this names
// is known to whoever goes on.
func TestAnIDThatTheCLIMakesOutlivesAKill(t *testing.T) {
	said := fakeStep{Out: `{"type":"text","sessionID":"ses_first","part":{"messageID":"m","text":"hi"}}`}
	b := newTurns(t, "opencode", connect, said, fakeStep{Forever: true})
	b.options.Limits.Grace = time.Millisecond
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	b.notes = func(e flow.Event) {
		if strings.HasPrefix(e.Kind, "agent.") {
			b.store.die(errors.New("killed"))
			kill()
		}
	}
	if err := b.take(ctx, SpawnActivity, 1); err == nil {
		t.Fatal("it was not killed")
	}
	b.store.die(nil)
	if w := b.store.the(); w.State != tipstaff.SessionLive || w.SessionID != "ses_first" || w.Lease == nil {
		t.Errorf("a killed process has left %+v", w)
	}
	b.notes, b.host.Alive = func(flow.Event) {}, func(flow.Owner) bool { return false }
	b.script("1.18.33", connect, said, reported, fakeStep{Out: `{"type":"step_finish","sessionID":"ses_first","part":{"reason":"stop","messageID":"m"}}`})
	b.must(SpawnActivity, 2)
	if got := b.last(); !strings.HasSuffix(got, " -s ses_first") {
		t.Errorf("it goes on with %q", got)
	}
}

func TestAnIDThatChangesIsFollowed(t *testing.T) {
	b := newTurns(t, "claude", happy(reported)...)
	b.must(SpawnActivity, 1)
	const other = "99999999-9c1c-5d0a-8f4e-0d6a5f1f2a11"
	b.script("2.1.325 (Claude Code)", connect, fakeStep{Out: initLine(other)}, reported, fakeStep{Out: strings.ReplaceAll(endLine, anID, other)})
	b.must(ResumeActivity, 1)
	if got := b.last(); !strings.HasSuffix(got, "--resume "+anID) {
		t.Errorf("it went on with %q", got)
	}
	if w := b.store.the(); w.SessionID != other || !slices.Equal(w.Previous, []string{anID}) {
		t.Errorf("the session is %+v", w)
	}
	b.must(ResumeActivity, 1)
	if got := b.last(); !strings.HasSuffix(got, "--resume "+other) {
		t.Errorf("it goes on with %q", got)
	}
	if w := b.store.the(); !slices.Equal(w.Previous, []string{anID}) || len(w.Invocations) != 3 {
		t.Errorf("the session is %+v", w)
	}
}

// A fork goes on in a session of its own: in a copy, where the CLI makes one, else in one
// that is told everything again.
func TestAForkBeginsASessionOfItsOwn(t *testing.T) {
	for typ, c := range map[string]struct{ args, input string }{
		"claude": {"--resume " + anID + " --fork-session --session-id " + sessionUUID(workRun, "root/work#1"), "do it again"},
		"gemini": {"--session-id " + sessionUUID(workRun, "root/work#1"), "do it again"},
	} {
		b := newTurns(t, typ, connect, fakeStep{Exit: 1})
		source := tipstaff.WorkerSession{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAW", Run: "source", Path: "root/work#1", Worker: typ, Type: typ, Host: "here", State: tipstaff.SessionLive, SessionID: anID}
		b.bed.must(b.store.PutSession(t.Context(), source))
		b.host.Base = "source"
		b.must(ResumeActivity, 1)
		if got := b.last(); !strings.HasSuffix(got, c.args) || b.seen()[0].Input != c.input {
			t.Errorf("%s was started with %q and told %q", typ, got, b.seen()[0].Input)
		}
		if now, _ := b.store.FindSession(t.Context(), "source", "root/work#1"); !reflect.DeepEqual(now, source) || len(b.store.sessions) != 2 {
			t.Errorf("%s: the source's session is %+v", typ, now)
		}
	}
}

// What is refused before the CLI is started stores nothing.
func TestWhatIsRefusedStoresNothing(t *testing.T) {
	for code, spoil := range map[string]func(*turns){
		string(tipstaff.WorkerUnavailable):         func(b *turns) { t.Setenv("PATH", "/nowhere") },
		string(tipstaff.WorkerDirectory):           func(b *turns) { b.options.Dir = "/nowhere" },
		string(tipstaff.WorkerPolicyInexpressible): func(b *turns) { b.posture, b.policy = Auto, ruled{} },
		string(tipstaff.WorkerContainment):         func(b *turns) { b.options.Limits.Containment = "cgroup" },
	} {
		b := newTurns(t, "opencode", connect)
		spoil(b)
		var refused *flow.Error
		if err := b.take(t.Context(), SpawnActivity, 1); !errors.As(err, &refused) || refused.Code != code || !refused.NotSent {
			t.Errorf("%v, want %s", err, code)
		}
		if files, err := os.ReadDir(b.host.Folder); len(files)+len(b.store.sessions)+len(b.starter.runs()) > 0 || err != nil {
			t.Errorf("%s: stored are %v and %+v; %d starts", code, files, b.store.sessions, len(b.starter.runs()))
		}
	}
}

// A CLI that has a session of the id which it is given is asked to go on with it.
func TestAnIDInUseIsGoneOnWith(t *testing.T) {
	for typ, c := range map[string]struct{ version, says, flag string }{
		"claude": {"2.1.325 (Claude Code)", "Error: Session ID x is already in use.", "--resume "},
		"gemini": {"0.61.0", `Error starting session: Session ID "x" already exists.`, "--resume "},
	} {
		b := newTurns(t, typ, fakeStep{Err: c.says, Exit: map[string]int{"claude": 1, "gemini": 42}[typ]})
		b.must(SpawnActivity, 1)
		given := b.last()
		if w := b.store.the(); w.State != tipstaff.SessionLive || w.Invocations[0].Outcome != string(SessionConflict) {
			t.Fatalf("%s: %+v", typ, w)
		}
		for _, bound := range []string{tipstaff.BoundCostUSD, tipstaff.BoundTokens} { // it has done nothing, and says so
			if n, told := b.used[bound]; n != 0 || !told {
				t.Errorf("%s: of %s it is charged %d, told %t", typ, bound, n, told)
			}
		}
		b.must(ResumeActivity, 1)
		if got := b.last(); got != strings.Replace(given, "--session-id ", c.flag, 1) || got == given {
			t.Errorf("%s was started with %q, then with %q", typ, given, got)
		}
	}
}

// A session is gone on with where it is, by its own worker, and while its task lasts.
func TestSessionsThatCannotBeGoneOnWith(t *testing.T) {
	b := newTurns(t, "claude", happy(reported)...)
	b.must(SpawnActivity, 1)
	before := b.store.the()
	for code, change := range map[tipstaff.Code]func(*tipstaff.WorkerSession){
		tipstaff.SessionMismatch:  func(w *tipstaff.WorkerSession) { w.Worker = "another" },
		tipstaff.SessionElsewhere: func(w *tipstaff.WorkerSession) { w.Host = "there" },
		tipstaff.SessionIsClosed:  func(w *tipstaff.WorkerSession) { w.State = tipstaff.SessionClosed },
		tipstaff.SessionBusy:      func(w *tipstaff.WorkerSession) { w.Lease = &flow.Owner{Host: "here", Pid: 2} },
	} {
		b.store.change(func(w *tipstaff.WorkerSession) { *w = before; change(w) })
		was := b.store.the()
		for _, name := range []string{SpawnActivity, ResumeActivity} {
			var refused *flow.Error
			if err := b.take(t.Context(), name, 1); !errors.As(err, &refused) || refused.Code != string(code) || !refused.NotSent {
				t.Errorf("%s is answered with %v, want %s", name, err, code)
			}
		}
		if now := b.store.the(); !reflect.DeepEqual(now, was) || len(b.seen()) != 1 {
			t.Errorf("%s: %d starts; it was %+v, and is %+v", code, len(b.seen()), was, now)
		}
	}
}

func TestOfTwoResumesOneRuns(t *testing.T) {
	b := newTurns(t, "claude", happy(reported)...)
	b.must(SpawnActivity, 1)
	b.script("2.1.325 (Claude Code)", happy(fakeStep{Call: "task_log", Args: `{"text":"at work"}`}, reported)...)
	var held atomic.Bool
	working, tried := make(chan struct{}), make(chan struct{})
	b.notes = func(e flow.Event) {
		if e.Kind == string(tipstaff.KindTaskLog) && held.CompareAndSwap(false, true) {
			close(working)
			<-tried
		}
	}
	first := make(chan error, 1)
	go func() { first <- b.take(t.Context(), ResumeActivity, 1) }()
	<-working
	var refused *flow.Error
	if err := b.take(t.Context(), ResumeActivity, 1); !errors.As(err, &refused) || refused.Code != string(tipstaff.SessionBusy) {
		t.Errorf("the second is answered with %v", err)
	}
	close(tried)
	if err := <-first; err != nil || len(b.seen()) != 2 {
		t.Errorf("the first came to %v, after %d starts", err, len(b.seen()))
	}
}

// An invocation wants its limits of money, as far as the run has that much left; without a
// limit of its own it wants nothing of tokens, unless nothing is left.
func TestWhatAnInvocationWants(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		left   flow.Use
		want   flow.Use
	}{
		"its limits":                 {Limits{CostUSD: 2, Tokens: 9}, flow.Use{"cost_usd": 5, "tokens": 10}, flow.Use{"cost_usd": 2, "tokens": 9}},
		"what is left":               {Limits{CostUSD: 2, Tokens: 9}, flow.Use{"cost_usd": 1, "tokens": 4}, flow.Use{"cost_usd": 1, "tokens": 4}},
		"more than nothing":          {Limits{CostUSD: 2}, flow.Use{"cost_usd": 0, "tokens": 0}, flow.Use{"cost_usd": 2, "tokens": 1}},
		"nothing without limits":     {Limits{}, flow.Use{"cost_usd": 5, "tokens": 10}, flow.Use{}},
		"nothing of what is unbound": {Limits{CostUSD: 2, Tokens: 9}, flow.Use{}, flow.Use{}},
		"a call that it cannot make": {Limits{}, flow.Use{"model_calls": 0, "tool_calls": 0}, flow.Use{"model_calls": 1}},
	} {
		l := &Local{Assignment: Assignment{Settled: Settled{Limits: c.limits, Counted: []string{"agent_hops", "model_calls"}}}}
		got := wants(flow.Attempt{Local: l}, func(bound string) (int64, bool) { n, ok := c.left[bound]; return n, ok })
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Its limits are what it was granted, and each is the run's or its own.
func TestLimitsAreEachTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		limits         Limits
		reserved, left flow.Use
		want           Limits
		short          string
	}{
		"its own":              {Limits{CostUSD: 2, Tokens: 9}, flow.Use{"cost_usd": 2, "tokens": 9}, nil, Limits{CostUSD: 2, Tokens: 9}, ""},
		"the run's for one":    {Limits{CostUSD: 2, Tokens: 9}, flow.Use{"cost_usd": 1, "tokens": 9}, nil, Limits{CostUSD: 1, Tokens: 9}, "cost_usd"},
		"all that is left":     {Limits{CostUSD: 2}, flow.Use{"cost_usd": 2}, flow.Use{"tokens": 7}, Limits{CostUSD: 2, Tokens: 7}, "tokens"},
		"none that is bounded": {Limits{CostUSD: 2}, nil, nil, Limits{CostUSD: 2}, ""},
	} {
		x := &turn{local: &Local{Assignment: Assignment{Settled: Settled{Limits: c.limits}}}, attempt: flow.Attempt{Reserved: c.reserved,
			Left: func(bound string) (int64, bool) { n, ok := c.left[bound]; return n, ok }}}
		if got := x.limits(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if names := slices.Collect(maps.Keys(x.short)); strings.Join(names, " ") != c.short {
			t.Errorf("%s: the run's are %v, want %q", name, names, c.short)
		}
	}
}
