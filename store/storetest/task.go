package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// MustTask makes a task.
func (b *Bench) MustTask(t tipstaff.Task) tipstaff.Task {
	b.Helper()
	if t.Name == "" {
		t.Name = "parser"
	}
	t.User, t.Role, t.Review, t.MaxIterations = "local", "implementer", "person", 5
	made, err := b.NewTask(b.Context(), t)
	if err != nil {
		b.Fatal(err)
	}
	return made
}

// spawn makes a run for a task.
func (b *Bench) spawn(id string) (string, error) {
	run := tipstaff.NewID(time.Now()).String()
	return run, b.Create(b.Context(), flow.NewRun{ID: run, User: "local", Kind: "plan", Program: ZeroDigest, Task: id, Worker: "careful"}, Begun(b.Keys()))
}

// MustSpawn makes a run for a task.
func (b *Bench) MustSpawn(id string) string {
	b.Helper()
	run, err := b.spawn(id)
	if err != nil {
		b.Fatal(err)
	}
	return run
}

// StoredTask is a task as it is stored, which must be valid.
func (b *Bench) StoredTask(id string) tipstaff.Task {
	b.Helper()
	t, err := b.Task(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	if ps := tipstaff.ValidateTask(t); len(ps) > 0 {
		b.Fatalf("the stored task is not valid: %v", ps)
	}
	return t
}

// Moved is the record that moves a task.
func Moved(task, from, to, by string, more string) flow.Draft {
	return flow.Draft{Kind: "task.status", Path: "root", Note: true,
		Body: Body(`{"task":%q,"from":%q,"to":%q,"by":%q,"iteration":1%s}`, task, from, to, by, more)}
}

const askedPause = `,"pause":{"reason":"question","question":"which?"}`

func testIdsOfTasksAreMultiplesOfTen(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	for _, c := range []struct{ given, want string }{{"", "010"}, {"", "020"}, {"034", "034"}, {"", "040"}, {"1000", "1000"}, {"", "1010"}} {
		if made := b.MustTask(tipstaff.Task{ID: c.given}); made.ID != c.want {
			t.Errorf("%q was given the id %s, want %s", c.given, made.ID, c.want)
		}
	}
	_, err := b.NewTask(t.Context(), tipstaff.Task{ID: "034", Name: "x", User: "local", Role: "r", Review: "none", MaxIterations: 1})
	if tipstaff.CodeOf(err) != tipstaff.TaskConflict {
		t.Errorf("an id that is taken: %v", err)
	}
	_, err = b.NewTask(t.Context(), tipstaff.Task{Name: "two\nlines", User: "local", Role: "r", Review: "none", MaxIterations: 1})
	if tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("a task that is not valid: %v", err)
	}
	list, err := b.Tasks(t.Context(), tipstaff.TaskQuery{}, "local")
	ids := ""
	for _, task := range list {
		ids += task.ID + " "
	}
	if want := "010 020 034 040 1000 1010 "; ids != want || err != nil {
		t.Errorf("the list is %q, want %q: %v", ids, want, err)
	}
	if list, err := b.Tasks(t.Context(), tipstaff.TaskQuery{}, "ann"); len(list) > 0 || err != nil {
		t.Errorf("another user sees %v, %v", list, err)
	}
}

func testOfTwoSpawnsOneMakesARun(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id := b.MustTask(tipstaff.Task{}).ID
	var made, busy sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			run, err := b.spawn(id)
			switch tipstaff.CodeOf(err) {
			case "":
				made.Store(run, true)
			case tipstaff.TaskBusy:
				busy.Store(run, true)
			default:
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	runs := slices.Collect(func(yield func(string) bool) { made.Range(func(k, _ any) bool { return yield(k.(string)) }) })
	if len(runs) != 1 {
		t.Fatalf("%d runs were made", len(runs))
	}
	task := b.StoredTask(id)
	if task.Status != tipstaff.TaskInProgress || task.RunID != runs[0] || task.Worker != "careful" || task.Revision != 2 {
		t.Errorf("the task is %+v", task)
	}
	if rows, err := b.Runs(t.Context(), flow.Query{}); len(rows) != 1 || err != nil {
		t.Errorf("%d runs are stored, %v", len(rows), err)
	}
	if kinds := b.Kinds(runs[0]); kinds[len(kinds)-1] != "task.status" {
		t.Errorf("the run does not record that it took the task: %v", kinds)
	}
	b.MustVerify(runs[0])
}

func testRecordsMoveTheirTask(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id := b.MustTask(tipstaff.Task{}).ID
	run := b.MustSpawn(id)
	l := b.MustAcquire(run)
	b.MustAppend(l, Moved(id, "in_progress", "paused", "worker", askedPause+`,"session_id":"s-1"`))
	if task := b.StoredTask(id); task.Status != tipstaff.TaskPaused || task.Pause.Question != "which?" || task.SessionID != "s-1" {
		t.Errorf("paused: %+v", task)
	}
	b.MustAppend(l, Moved(id, "paused", "in_progress", "system", ""),
		flow.Draft{Kind: "task.log", Path: "root", Note: true, Body: Body(`{"task":%q,"invocation":"i","level":"warning","text":"slow"}`, id)},
		flow.Draft{Kind: "task.output", Path: "root", Note: true, Body: Body(`{"task":%q,"invocation":"i","output":{"kind":"file","path":"a.go","iteration":1,"at":"2026-11-15T02:30:00Z"}}`, id)})
	task := b.StoredTask(id)
	lines, err := b.TaskLog(t.Context(), id)
	if len(task.Outputs) != 1 || len(lines) != 1 || lines[0].Text != "slow" || lines[0].Level != "warning" || err != nil {
		t.Errorf("outputs %+v, log %+v, %v", task.Outputs, lines, err)
	}
	before := b.MustRun(run).Head
	for name, d := range map[string]flow.Draft{
		"a move that there is not":    Moved(id, "in_progress", "completed", "worker", ""),
		"a move from where it is not": Moved(id, "paused", "needs_review", "local:cli", ""),
		"a task that there is not":    Moved("990", "in_progress", "needs_review", "worker", ""),
	} {
		if err := AppendErr(b, l, d); tipstaff.CodeOf(err) != tipstaff.TaskTransition && tipstaff.CodeOf(err) != tipstaff.TaskNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := b.StoredTask(id); now.Revision != task.Revision || b.MustRun(run).Head != before {
		t.Errorf("refused records changed revision %d to %d, head %d to %d", task.Revision, now.Revision, before, b.MustRun(run).Head)
	}
	other := b.MustCreate()
	if err := AppendErr(b, b.MustAcquire(other), Moved(id, "in_progress", "needs_review", "worker", "")); tipstaff.CodeOf(err) != tipstaff.TaskNotFound {
		t.Errorf("another run moved the task: %v", err)
	}
}

func testARunEndsWithItsTasksEnded(t *testing.T, place Place) {
	for end, want := range map[string]string{"completed": "the run has completed", "failed": "the run has failed", "cancelled": "the run was cancelled"} {
		t.Run(end, func(t *testing.T) {
			b := place.Bench(t, nil)
			id := b.MustTask(tipstaff.Task{}).ID
			run := b.MustSpawn(id)
			l := b.MustAcquire(run)
			session := tipstaff.NewID(time.Now()).String()
			err := b.PutSession(t.Context(), tipstaff.WorkerSession{ID: session, Run: run, Path: "root#1", Task: id, User: "local", State: tipstaff.SessionLive})
			if err != nil {
				t.Fatal(err)
			}
			opened, err := b.OpenTask(t.Context(), run, "root/kept", tipstaff.Task{Name: "root/kept", Role: "reviewer", Review: "none", MaxIterations: 1})
			if err != nil {
				t.Fatal(err)
			}
			b.MustAppend(l, Moved(opened.ID, "in_progress", "needs_review", "worker", ""))
			b.MustAppend(l, Terminals[end])
			task := b.StoredTask(id)
			if task.Status != tipstaff.TaskAbandoned || task.CompletedAt.IsZero() || task.SessionID != "" {
				t.Errorf("the task is %+v", task)
			}
			kept := tipstaff.TaskAbandoned
			if end == "completed" {
				kept = tipstaff.TaskCompleted
			}
			if got := b.StoredTask(opened.ID); got.Status != kept {
				t.Errorf("what was reported and nobody reviews is %s, want %s", got.Status, kept)
			}
			if s, err := b.Session(t.Context(), session); s.State != tipstaff.SessionClosed || err != nil {
				t.Errorf("the session is %s, %v", s.State, err)
			}
			var said string
			for _, r := range b.MustRecords(run) {
				if e, err := tipstaff.ParseEvent(r.Bytes); err == nil && e.Kind == tipstaff.KindTaskStatus {
					said = tipstaff.BodyOf[tipstaff.TaskMoved](&e).Why
				}
			}
			if said != want {
				t.Errorf("it is recorded as %q, want %q", said, want)
			}
			b.MustVerify(run)
		})
	}
}

func testTheTaskOfAStepIsMadeOnce(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	open := func(path string) tipstaff.Task {
		t.Helper()
		task, err := b.OpenTask(t.Context(), run, path, tipstaff.Task{Name: path, Role: "implementer", Review: "none", MaxIterations: 5})
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	first, again, other := open("root/a"), open("root/a"), open("root/b")
	if first.ID != again.ID || again.Revision != first.Revision || other.ID == first.ID || first.Status != tipstaff.TaskInProgress || !first.Implicit || first.RunID != run {
		t.Errorf("%+v\n%+v\n%+v", first, again, other)
	}
	for implicit, want := range map[bool]int{false: 0, true: 2} {
		if list, err := b.Tasks(t.Context(), tipstaff.TaskQuery{Run: run, Implicit: implicit}, ""); len(list) != want || err != nil {
			t.Errorf("implicit %v lists %d, want %d: %v", implicit, len(list), want, err)
		}
	}
}

func testAForkWorksOnCopies(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id := b.MustTask(tipstaff.Task{}).ID
	run := b.MustSpawn(id)
	l := b.MustAcquire(run)
	b.MustAppend(l, flow.Draft{Kind: "task.log", Note: true, Body: Body(`{"task":%q,"invocation":"i","level":"info","text":"early"}`, id)},
		Moved(id, "in_progress", "paused", "worker", askedPause+`,"session_id":"s-1"`))
	at := b.MustRun(run).Head
	b.MustAppend(l, Moved(id, "paused", "in_progress", "system", ""),
		flow.Draft{Kind: "task.log", Note: true, Body: Body(`{"task":%q,"invocation":"i","level":"info","text":"late"}`, id)}, Terminals["failed"])

	check := func(fork string) tipstaff.Task {
		t.Helper()
		copied, err := b.RunTask(t.Context(), fork, id)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := b.TaskLog(t.Context(), copied.ID)
		if copied.ID == id || copied.Status != tipstaff.TaskPaused || copied.RunID != fork || copied.SessionID != "" || len(lines) != 1 || lines[0].Text != "early" || err != nil {
			t.Errorf("the copy is %+v, log %+v, %v", copied, lines, err)
		}
		return copied
	}
	fork := b.fork(run, at)
	copied := check(fork)
	check(b.fork(fork, b.MustRun(fork).Head)) // a copy of the copy
	b.MustAppend(b.MustAcquire(fork), Moved(id, "paused", "in_progress", "system", ""))
	if now := b.StoredTask(copied.ID); now.Status != tipstaff.TaskInProgress {
		t.Errorf("records of the fork that name the original did not move the copy: %+v", now)
	}
	if source := b.StoredTask(id); source.Status != tipstaff.TaskAbandoned {
		t.Errorf("the original is %s", source.Status)
	}
	early := b.fork(run, 3) // before the run says that it took the task
	if got, err := b.RunTask(t.Context(), early, id); got.Status != tipstaff.TaskInProgress || got.Pause != nil || err != nil {
		t.Errorf("forked at the start: %+v, %v", got, err)
	}
}

func testParallelChangesAllSurvive(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	id := b.MustTask(tipstaff.Task{}).ID
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := b.UpdateTask(t.Context(), id, 0, func(task *tipstaff.Task) error {
				task.Metadata[fmt.Sprint("k", i)] = "v"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if task := b.StoredTask(id); len(task.Metadata) != 20 || task.Revision != 21 {
		t.Errorf("%d of 20 changes are there, revision %d", len(task.Metadata), task.Revision)
	}
	refusal := errors.New("no")
	for name, c := range map[string]struct {
		revision int64
		f        func(*tipstaff.Task) error
		want     func(error) bool
	}{
		"stale":     {20, func(task *tipstaff.Task) error { task.Name = "x"; return nil }, func(err error) bool { return tipstaff.CodeOf(err) == tipstaff.TaskConflict }},
		"refused":   {21, func(task *tipstaff.Task) error { task.Name = "x"; return refusal }, func(err error) bool { return errors.Is(err, refusal) }},
		"not valid": {21, func(task *tipstaff.Task) error { task.Name = ""; return nil }, func(err error) bool { return tipstaff.CodeOf(err) == tipstaff.InvalidArgument }},
		"no change": {21, func(task *tipstaff.Task) error { return nil }, func(err error) bool { return err == nil }},
	} {
		if _, err := b.UpdateTask(t.Context(), id, c.revision, c.f); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if task := b.StoredTask(id); task.Revision != 21 || task.Name != "parser" {
			t.Errorf("%s: it has changed: %+v", name, task)
		}
	}
}

func testOneTakesTheLeaseOfASession(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	id := tipstaff.NewID(time.Now()).String()
	w := tipstaff.WorkerSession{ID: id, Run: run, Path: "root#1", Task: "010", User: "local", State: tipstaff.SessionNew, Worker: "claude"}
	if err := b.PutSession(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	second := w
	second.ID = tipstaff.NewID(time.Now().Add(time.Second)).String()
	if err := b.PutSession(t.Context(), second); tipstaff.CodeOf(err) != tipstaff.SessionConflict {
		t.Errorf("a second session at one path: %v", err)
	}
	taken, busy := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			err := b.UpdateSession(t.Context(), id, func(w *tipstaff.WorkerSession) error {
				if w.Lease != nil {
					return tipstaff.Errorf(tipstaff.SessionBusy, "process %d has it", w.Lease.Pid)
				}
				w.Lease = &flow.Owner{Pid: i + 1}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			switch tipstaff.CodeOf(err) {
			case "":
				taken++
			case tipstaff.SessionBusy:
				busy++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if taken != 1 || busy != 9 {
		t.Errorf("%d took the lease, %d were refused", taken, busy)
	}
	if got, err := b.FindSession(t.Context(), run, "root#1"); got.ID != id || got.Lease == nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, err := range []error{errOf(b.FindSession(t.Context(), run, "root#2")), errOf(b.Session(t.Context(), second.ID))} {
		if tipstaff.CodeOf(err) != tipstaff.SessionUnknown {
			t.Errorf("a session that there is not: %v", err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

func testSessionsAreListedNewestFirst(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	var ids []string
	for i, state := range []tipstaff.SessionState{tipstaff.SessionLive, tipstaff.SessionLost, tipstaff.SessionNew, tipstaff.SessionClosed} {
		ids = append(ids, tipstaff.NewID(time.Now().Add(time.Duration(i)*time.Second)).String())
		err := b.PutSession(t.Context(), tipstaff.WorkerSession{ID: ids[i], Run: run, Path: fmt.Sprint("root#", i), User: "local", State: state})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		q    tipstaff.SessionQuery
		user string
		want []string
	}{
		"open":    {tipstaff.SessionQuery{}, "local", []string{ids[2], ids[0]}},
		"all":     {tipstaff.SessionQuery{All: true}, "local", []string{ids[3], ids[2], ids[1], ids[0]}},
		"prefix":  {tipstaff.SessionQuery{Prefix: ids[0]}, "", []string{ids[0]}},
		"another": {tipstaff.SessionQuery{All: true}, "ann", nil},
		"run":     {tipstaff.SessionQuery{Run: run}, "", []string{ids[2], ids[0]}},
	} {
		list, err := b.WorkerSessions(t.Context(), c.q, c.user)
		var got []string
		for _, w := range list {
			got = append(got, w.ID)
		}
		if !slices.Equal(got, c.want) || err != nil {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, err)
		}
	}
}
