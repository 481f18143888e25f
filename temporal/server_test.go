package temporal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/tipstaff/tipstaff"
)

// TestMain is a worker too, in processes that tests start to kill them.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TIPSTAFF_TEST_WORKER"); dir != "" {
		if err := workIn(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func workIn(dir string) error {
	e, err := Dial(context.Background(), os.Getenv("TIPSTAFF_TEST_ENGINE"), Options{})
	if err != nil {
		return err
	}
	return e.Work(context.Background(), Worker{Host: os.Getenv("TIPSTAFF_TEST_HOST"), Drive: lives(dir).drive})
}

// lives is a folder in which drives note what they do, a file for each run. A run ends
// when the file end is there.
type lives string

func (l lives) note(run string, words ...any) {
	f, err := os.OpenFile(filepath.Join(string(l), run), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer func() { _ = f.Close() }()
	fmt.Fprintln(f, append([]any{os.Getpid()}, words...)...)
}

func (l lives) drive(ctx context.Context, run string) (Outcome, error) {
	l.note(run, "began")
	for {
		if _, err := os.Stat(filepath.Join(string(l), "end")); err == nil {
			l.note(run, "ended")
			return Outcome{Status: Ended}, nil
		}
		select {
		case <-ctx.Done():
			l.note(run, "broken off")
			return Outcome{Status: Interrupted}, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// of gives the lines of a run.
func (l lives) of(run string) []string {
	text, _ := os.ReadFile(filepath.Join(string(l), run))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// has reports whether a process has noted something of a run.
func (l lives) has(run string, pid int, words string) bool {
	return slices.Contains(l.of(run), strconv.Itoa(pid)+" "+words)
}

func (l lives) end(t *testing.T) {
	if err := os.WriteFile(filepath.Join(string(l), "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that is to come within so long.
func until(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	began := time.Now()
	for !f() {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("after %s: %s", time.Since(began).Round(10*time.Millisecond), what)
}

// address is that of the server, with a queue of the test's own.
func address(t *testing.T) string {
	t.Helper()
	server := os.Getenv("TIPSTAFF_TEMPORAL")
	if server == "" {
		t.Skip("TIPSTAFF_TEMPORAL names no server: make test-engine starts one")
	}
	return server + "?queue=" + t.Name()
}

func dial(t *testing.T, address string) *Engine {
	t.Helper()
	e, err := Dial(t.Context(), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// work has a worker in this process until the test ends or stop is called.
func work(t *testing.T, e *Engine, w Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Work(ctx, w) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// workElsewhere has one in a process of its own.
func workElsewhere(t *testing.T, address, host string, dir lives) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TIPSTAFF_TEST_WORKER="+string(dir), "TIPSTAFF_TEST_ENGINE="+address, "TIPSTAFF_TEST_HOST="+host)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process
}

func newRun(t *testing.T) string { return fmt.Sprintf("%s-%x", t.Name(), rand.Int64()) }

func schedule(t *testing.T, e *Engine, run, host string) {
	t.Helper()
	if err := e.Schedule(t.Context(), run, host); err != nil {
		t.Fatal(err)
	}
}

// isOver waits until the workflow of a run has ended.
func isOver(t *testing.T, e *Engine, limit time.Duration, run string) {
	t.Helper()
	until(t, limit, "the workflow has ended", func() bool { return ended(t, e, run) })
}

func ended(t *testing.T, e *Engine, run string) bool {
	t.Helper()
	d, err := e.client.DescribeWorkflowExecution(t.Context(), run, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING
}

func TestKilledWorkersRunsGoOnElsewhere(t *testing.T) {
	t.Parallel()
	at, dir := address(t), lives(t.TempDir())
	e := dial(t, at)
	run := newRun(t)
	schedule(t, e, run, "")
	first := workElsewhere(t, at, "ada", dir)
	until(t, 10*time.Second, "the first worker drives", func() bool { return dir.has(run, first.Pid, "began") })
	second := workElsewhere(t, at, "bob", dir)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, 25*time.Second, "the second worker drives", func() bool { return dir.has(run, second.Pid, "began") })
	dir.end(t)
	isOver(t, e, 5*time.Second, run)
}

func TestAPausedWorkerIsBrokenOffWhenItWakes(t *testing.T) {
	t.Parallel()
	at, dir := address(t), lives(t.TempDir())
	e := dial(t, at)
	run := newRun(t)
	schedule(t, e, run, "")
	first := workElsewhere(t, at, "ada", dir)
	until(t, 10*time.Second, "the first worker drives", func() bool { return dir.has(run, first.Pid, "began") })
	second := workElsewhere(t, at, "bob", dir)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Until the polls of a paused process end, within a minute, it is handed tasks.
	until(t, 2*time.Minute, "the second worker drives", func() bool { return dir.has(run, second.Pid, "began") })
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, 10*time.Second, "the first worker is broken off", func() bool { return dir.has(run, first.Pid, "broken off") })
	dir.end(t)
	isOver(t, e, 5*time.Second, run)
	if !dir.has(run, second.Pid, "ended") {
		t.Errorf("the second worker did not end it: %q", dir.of(run))
	}
}

func TestAWorkerThatStopsHandsItsRunsOver(t *testing.T) {
	t.Parallel()
	at, ada, bob := address(t), lives(t.TempDir()), lives(t.TempDir())
	e := dial(t, at)
	var runs []string
	for range 5 {
		runs = append(runs, newRun(t))
		schedule(t, e, runs[len(runs)-1], "")
	}
	all := func(dir lives) func() bool {
		return func() bool {
			return !slices.ContainsFunc(runs, func(run string) bool { return !dir.has(run, os.Getpid(), "began") })
		}
	}
	stop := work(t, e, Worker{Host: "ada", Drive: ada.drive})
	until(t, 10*time.Second, "ada drives", all(ada))
	work(t, e, Worker{Host: "bob", Drive: bob.drive})
	go stop()
	until(t, beatTimeout-5*time.Second, "bob drives", all(bob)) // before ada could be missed
	for _, run := range runs {
		if got := ada.of(run); len(got) != 2 {
			t.Errorf("ada has driven %s more than once: %q", run, got)
		}
	}
	bob.end(t)
	for _, run := range runs {
		isOver(t, e, 5*time.Second, run)
	}
}

func TestARunIsDrivenOnItsHost(t *testing.T) {
	t.Parallel()
	at, ada, bob := address(t), lives(t.TempDir()), lives(t.TempDir())
	ada.end(t)
	bob.end(t)
	e := dial(t, at)
	work(t, e, Worker{Host: "ada", Drive: ada.drive})
	run := newRun(t)
	schedule(t, e, run, "bob")
	stop := work(t, e, Worker{Host: "bob", Drive: bob.drive})
	isOver(t, e, 10*time.Second, run)
	if !bob.has(run, os.Getpid(), "ended") || ada.has(run, os.Getpid(), "began") {
		t.Errorf("ada: %q, bob: %q", ada.of(run), bob.of(run))
	}
	stop()
}

// What people do to a workflow only stops the drive; scheduled again, the run goes on.
func TestWhatHappensToAWorkflowHarmsNoRun(t *testing.T) {
	t.Parallel()
	at := address(t)
	e := dial(t, at)
	for name, meddle := range map[string]func(ctx context.Context, run string) error{
		"terminate": func(ctx context.Context, run string) error { return e.client.TerminateWorkflow(ctx, run, "", "test") },
		"cancel":    func(ctx context.Context, run string) error { return e.client.CancelWorkflow(ctx, run, "") },
		"reset": func(ctx context.Context, run string) error {
			_, err := e.client.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{Namespace: e.namespace,
				WorkflowExecution: &common.WorkflowExecution{WorkflowId: run}, WorkflowTaskFinishEventId: 4, Reason: "test", RequestId: run})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lives(t.TempDir())
			e := dial(t, at+"-"+name)
			work(t, e, Worker{Host: "ada", Drive: dir.drive})
			run := "meddle-" + name + fmt.Sprint(rand.Int64())
			schedule(t, e, run, "")
			until(t, 10*time.Second, "the run is driven", func() bool { return dir.has(run, os.Getpid(), "began") })
			if err := meddle(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			until(t, 10*time.Second, "the drive is broken off", func() bool { return dir.has(run, os.Getpid(), "broken off") })
			if name != "reset" { // which drives it again by itself
				isOver(t, e, 5*time.Second, run)
				schedule(t, e, run, "")
			}
			dir.end(t)
			until(t, 10*time.Second, "the run has ended", func() bool { return dir.has(run, os.Getpid(), "ended") })
			isOver(t, e, 5*time.Second, run)
		})
	}
}

// serveAt starts a server of the test's own.
func serveAt(t *testing.T, port, db string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Getenv("TIPSTAFF_TEMPORAL_CLI"), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--db-filename", db, "--log-level", "never")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	until(t, 30*time.Second, "the server answers", func() bool {
		e, err := Dial(t.Context(), "temporal://127.0.0.1:"+port, Options{})
		if err == nil {
			e.Close()
		}
		return err == nil
	})
	return kill
}

func TestAServerThatIsKilledHarmsNoRun(t *testing.T) {
	t.Parallel()
	address(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db, dir := filepath.Join(t.TempDir(), "db"), lives(t.TempDir())
	kill := serveAt(t, port, db)
	e := dial(t, "temporal://127.0.0.1:"+port)
	driven, parked := newRun(t), newRun(t)
	parks := make(chan struct{}, 1)
	work(t, e, Worker{Host: "ada", Drive: func(ctx context.Context, run string) (Outcome, error) {
		if run == driven {
			return dir.drive(ctx, run)
		}
		select {
		case parks <- struct{}{}:
			return Outcome{Status: Parked}, nil
		default:
			return Outcome{Status: Ended}, nil
		}
	}})
	schedule(t, e, driven, "")
	schedule(t, e, parked, "")
	until(t, 10*time.Second, "both were driven", func() bool { return dir.has(driven, os.Getpid(), "began") && len(parks) == 1 })
	time.Sleep(time.Second) // so that the server has noticed
	kill()
	time.Sleep(12 * time.Second) // in which heartbeats go nowhere
	if err := e.Schedule(t.Context(), parked, ""); tipstaff.CodeOf(err) != tipstaff.StoreUnavailable || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a server that is gone: %v", err)
	}
	if got := dir.of(driven); len(got) != 1 {
		t.Errorf("the drive was broken off: %q", got)
	}
	serveAt(t, port, db)
	until(t, 20*time.Second, "the run is scheduled", func() bool { return e.Schedule(t.Context(), parked, "") == nil })
	isOver(t, e, 30*time.Second, parked)
	dir.end(t)
	isOver(t, e, 30*time.Second, driven)
	if !dir.has(driven, os.Getpid(), "ended") {
		t.Errorf("it did not go on: %q", dir.of(driven))
	}
}

func TestAHundredRunsOverTwoWorkers(t *testing.T) {
	t.Parallel()
	e := dial(t, address(t))
	var mu sync.Mutex
	drives, by := map[string]int{}, map[string]int{}
	drive := func(host string) func(context.Context, string) (Outcome, error) {
		return func(_ context.Context, run string) (Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			drives[run]++
			by[host]++
			switch drives[run] {
			case 1:
				return Outcome{Status: Parked, WakeAt: time.Now().Add(2 * time.Second)}, nil
			case 2:
				return Outcome{Status: Interrupted}, nil
			case 3:
				return Outcome{Status: Parked}, nil
			}
			return Outcome{Status: Ended}, nil
		}
	}
	for _, host := range []string{"ada", "bob"} {
		work(t, e, Worker{Host: host, Places: 4, Drive: drive(host)})
	}
	began := time.Now()
	var runs []string
	for range 100 {
		runs = append(runs, newRun(t))
		schedule(t, e, runs[len(runs)-1], "")
	}
	driven := func(times int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(runs, func(run string) bool { return drives[run] < times })
		}
	}
	until(t, time.Minute, "all have parked", driven(3))
	for _, run := range runs {
		schedule(t, e, run, "")
	}
	until(t, time.Minute, "all workflows have ended", func() bool {
		return !slices.ContainsFunc(runs, func(run string) bool { return !ended(t, e, run) })
	})
	t.Logf("%d drives of %d runs in %s, by host %v", by["ada"]+by["bob"], len(runs), time.Since(began).Round(time.Millisecond), by)
	mu.Lock()
	defer mu.Unlock()
	for _, run := range runs {
		if drives[run] > 5 { // a signal may have come while the third drive was reported
			t.Errorf("%s was driven %d times", run, drives[run])
		}
	}
	if by["ada"] == 0 || by["bob"] == 0 {
		t.Errorf("not spread: %v", by)
	}
}

func TestUnknownNamespace(t *testing.T) {
	t.Parallel()
	at, _, _ := strings.Cut(address(t), "?")
	_, err := Dial(t.Context(), at+"/nowhere", Options{})
	if err == nil || !strings.Contains(err.Error(), `has no namespace "nowhere"`) {
		t.Error(err)
	}
}

func TestUnscheduledRuns(t *testing.T) {
	t.Parallel()
	e := dial(t, address(t))
	runs := []string{newRun(t), newRun(t), newRun(t), newRun(t)}
	none, waits, over, driven := runs[0], runs[1], runs[2], runs[3]
	dir := lives(t.TempDir())
	for _, run := range runs[1:] {
		schedule(t, e, run, "") // for a worker that is yet to come
	}
	if got, err := e.Unscheduled(t.Context(), runs); err != nil || !slices.Equal(got, []string{none}) {
		t.Errorf("%q, %v", got, err)
	}
	work(t, e, Worker{Drive: func(ctx context.Context, run string) (Outcome, error) {
		switch run {
		case waits:
			return Outcome{Status: Parked}, nil
		case over:
			return Outcome{Status: Ended}, nil
		}
		return dir.drive(ctx, run)
	}})
	until(t, 30*time.Second, "one has ended, one waits, and one is driven", func() bool {
		got, err := e.Unscheduled(t.Context(), runs)
		return err == nil && slices.Equal(got, []string{none, waits, over}) && dir.has(driven, os.Getpid(), "began")
	})
	dir.end(t)
}
