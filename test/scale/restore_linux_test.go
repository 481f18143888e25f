package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// A database is set back to a moment in the middle of its work, from a base backup and its
// log: what was recorded by then is there and verifies, what came later is not, and the runs
// go on from there.
func TestRestoreToAMoment(t *testing.T) {
	first, second := newDatabase(t, "first"), newDatabase(t, "second")
	archive := filepath.Join(first.disk, "archive")
	first.create()
	first.configure(first.data(), fmt.Sprintf("synchronous_standby_names = ''\narchive_mode = on\narchive_command = 'mkdir -p %[1]s && cp %%p %[1]s/%%f'\n", archive))
	first.start()
	w := desk{T: t, dir: t.TempDir()}
	w.must(os.WriteFile(filepath.Join(w.dir, "tipstaff.yaml"), []byte("allowed_effects: [read, idempotent, once]\nservers: {builtin: {programs: [sh], roots: [.], tools: {exec: {effect: once}, sleep: {effect: read}}}}\n"), 0o644))
	w.store = first.store()

	asks := w.begin(`{kind: plan, version: 1, root: {kind: sequential, children: [{id: ok, kind: gate, question: "Go on?"}, {id: go, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo x >> did"]}}]}}`)
	second.run("pg_basebackup", "-D", second.data(), "-c", "fast", "--no-sync", "-d", first.store())
	done := w.begin(`{kind: plan, version: 1, root: {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}}`)
	w.must(os.WriteFile(filepath.Join(w.dir, "sleeps.yaml"), []byte(`{kind: plan, version: 1, root: {id: a, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5s}}}`), 0o644))
	driving := w.command("run", "sleeps.yaml", "--unattended")
	w.must(driving.Start())
	var sleeps string
	for end := time.Now().Add(30 * time.Second); sleeps == ""; time.Sleep(50 * time.Millisecond) {
		for id, status := range w.list() {
			if status == "running" {
				sleeps = id
			}
		}
		if time.Now().After(end) {
			t.Fatal("the run does not begin")
		}
	}
	moment := first.now()
	time.Sleep(100 * time.Millisecond)
	w.decide(asks)
	later := w.begin(`{kind: plan, version: 1, root: {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}}`)
	_ = driving.Process.Kill() // it may have ended
	_ = driving.Wait()         // however it has
	w.must(first.query("SELECT pg_switch_wal()"))
	for end := time.Now().Add(30 * time.Second); first.query("DO $$ BEGIN IF (SELECT last_archived_wal IS NULL OR last_archived_time < '"+moment+"'::timestamptz FROM pg_stat_archiver) THEN RAISE 'not yet'; END IF; END $$") != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the log is not archived")
		}
	}
	first.kill()

	second.configure(second.data(), fmt.Sprintf("archive_mode = off\nrestore_command = 'cp %s/%%f %%p'\nrecovery_target_time = '%s'\nrecovery_target_action = promote\n", archive, moment))
	w.must(os.WriteFile(filepath.Join(second.data(), "recovery.signal"), nil, 0o644))
	second.start()
	w.store = second.store()
	for end := time.Now().Add(30 * time.Second); second.query("CREATE TABLE public.written (n int)") != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the restored database cannot be written")
		}
	}
	runs := w.list()
	if want := map[string]string{asks: "awaiting_decision", done: "completed", sleeps: "interrupted"}; fmt.Sprint(runs) != fmt.Sprint(want) {
		t.Errorf("restored are %v, want %v (and not %s)", runs, want, later)
	}
	for id := range runs {
		w.tipstaff(0, "verify", "--open", id)
	}
	w.tipstaff(0, "resume", sleeps)
	w.decide(asks)
	for id, status := range w.list() {
		if status != "completed" {
			t.Errorf("run %s is %s in the end", id, status)
		}
		w.tipstaff(0, "verify", id)
	}
	// What the world had seen by then is not undone with the database: the effect of a step
	// whose record was lost is there twice.
	if did, _ := os.ReadFile(filepath.Join(w.dir, "did")); string(did) != "x\nx\n" {
		t.Errorf("the effect is there as %q", did)
	}
}

func (d *database) store() string { return "postgres://tipstaff@" + d.addr + "/postgres" }

// configure adds settings, which go before those that are there.
func (d *database) configure(data, settings string) {
	d.Helper()
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	d.must(err)
	_, err = conf.WriteString(settings)
	d.must(err)
	d.must(conf.Close())
}

// now is the time of the server, to the microsecond.
func (d *database) now() string {
	d.Helper()
	c, err := pgconn.Connect(context.Background(), d.store())
	d.must(err)
	defer c.Close(context.Background())
	read := c.ExecParams(context.Background(), "SELECT clock_timestamp()::text", nil, nil, nil, nil).Read()
	d.must(read.Err)
	return string(read.Rows[0][0])
}

// desk is a folder whose runs are in a database.
type desk struct {
	*testing.T
	dir, store string
}

func (w *desk) must(err error) {
	if err != nil {
		w.Helper()
		w.Fatal(err)
	}
}

func (w *desk) command(args ...string) *exec.Cmd {
	w.Helper()
	binary, err := cmdtest.Released()
	w.must(err)
	c := exec.Command(binary, args...)
	c.Dir, c.Env = w.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TIPSTAFF_TRUST=1", "TIPSTAFF_STORE=" + w.store}
	return c
}

// tipstaff runs a command that ends with one of these codes, and returns what it printed.
func (w *desk) tipstaff(code int, args ...string) string {
	w.Helper()
	c := w.command(args...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	_ = c.Run() // its code tells
	if got := c.ProcessState.ExitCode(); got != code {
		w.Fatalf("tipstaff %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &said)
	}
	return out.String()
}

// begin runs a plan to where it rests, and returns its id.
func (w *desk) begin(plan string) string {
	w.Helper()
	before := w.list()
	w.must(os.WriteFile(filepath.Join(w.dir, "plan.yaml"), []byte(plan), 0o644))
	code := 0
	if strings.Contains(plan, "gate") {
		code = 4
	}
	w.tipstaff(code, "run", "plan.yaml", "--unattended")
	for id := range w.list() {
		if _, old := before[id]; !old {
			return id
		}
	}
	w.Fatal("no run has come")
	return ""
}

// decide approves what a run asks, and drives it on.
func (w *desk) decide(run string) {
	w.Helper()
	var shown struct {
		Gates []struct {
			ID string `json:"gate_id"`
		} `json:"open_gates"`
	}
	w.must(json.Unmarshal([]byte(w.tipstaff(0, "show", run, "--json")), &shown))
	w.tipstaff(0, "decide", run, shown.Gates[0].ID, "approve")
	w.tipstaff(0, "resume", run)
}

// list tells the status of every run.
func (w *desk) list() map[string]string {
	w.Helper()
	all := map[string]string{}
	for line := range strings.Lines(w.tipstaff(0, "ls", "--json")) {
		var run struct {
			ID     string `json:"run_id"`
			Status string `json:"status"`
		}
		w.must(json.Unmarshal([]byte(line), &run))
		all[run.ID] = run.Status
	}
	return all
}
