package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
	"github.com/tipstaff/tipstaff/worker"
)

func (w *workspace) gitSays(args ...string) string {
	w.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.Dir
	c.Env = append(os.Environ(), "HOME="+w.Dir)
	out, err := c.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// forever is longer than any test waits, and not longer than a lost process may live.
const forever = 2 * time.Minute

// parts are what fakes can do.
var parts = map[string]func(*fake){
	"honest": (*fake).honest,
	"silent": func(f *fake) { f.begin(); f.text("I am done, believe me."); f.end() },
	"exits 3": func(f *fake) {
		f.begin()
		f.note("left %d", f.n)
		syscall.Exit(3)
	},
	"never ends": func(f *fake) { f.begin(); time.Sleep(forever) },
	"keeps talking": func(f *fake) {
		f.begin()
		for range time.Tick(50 * time.Millisecond) {
			f.text("still here")
		}
	},
	"floods retries": func(f *fake) {
		f.begin()
		for range time.Tick(20 * time.Millisecond) {
			f.say(`{"type":"system","subtype":"api_retry","attempt":1,"session_id":%q}`, f.id)
		}
	},
	"is deaf": func(f *fake) {
		signal.Ignore(syscall.SIGTERM)
		f.begin()
		time.Sleep(forever)
	},
	"half a line": func(f *fake) {
		f.begin()
		f.print(`{"type":"assistant","message":{"id":"m1","content":[{"type":"te`)
		f.check(f.out.Flush())
		f.check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		time.Sleep(forever)
	},
	"long line": func(f *fake) {
		f.begin()
		f.print(`{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"text","text":"`)
		for range 20 << 10 {
			f.print(strings.Repeat("x", 1<<10))
		}
		f.say(`"}]},"session_id":%q}`, f.id)
		f.report()
		f.end()
	},
	"unknown events": func(f *fake) {
		f.begin()
		f.say(`{"type":"from_another_world","x":[1,{"y":null}]}`)
		f.say(`{"type":7}`)
		f.say(`[1,2]`)
		f.say(`not JSON at all`)
		f.say(`{"type":"assistant","message":"not an object"}`)
		f.report()
		f.end()
	},
	"prints a gigabyte": func(f *fake) {
		f.begin()
		line := `{"type":"noise","x":"` + strings.Repeat("y", 64<<10) + `"}`
		for range 16 << 10 {
			f.say("%s", line)
		}
		f.report()
		f.end()
	},
	"leaves a child": func(f *fake) {
		f.begin()
		left := filepath.Join(f.dir, "left")
		c := exec.Command("sh", "-c", "setsid env -i sh -c 'echo $$ > "+left+".new; mv "+left+".new "+left+"; exec sleep 120' > /dev/null 2>&1 < /dev/null &")
		f.check(c.Run())
		for !fileExists(left) {
			time.Sleep(time.Millisecond)
		}
		pid, err := os.ReadFile(left)
		f.check(err)
		for name := ""; name != "sleep"; { // until then it is sh, setsid and env, one after another
			b, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/comm")
			name = strings.TrimSpace(string(b))
		}
		f.report()
		f.end()
	},
	"steals a token": func(f *fake) {
		old := filepath.Join(f.dir, "old")
		said := func(socket, token string) string {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				return err.Error()
			}
			defer conn.Close()
			_, err = io.WriteString(conn, token+"\n")
			f.check(err)
			answer, err := bufio.NewReader(conn).ReadString('\n')
			f.check(err)
			return strings.TrimSpace(answer)
		}
		socket := os.Getenv("TIPSTAFF_MCP_SOCKET")
		token := f.token()
		if f.n > 1 { // before its own connection: nor is that one lost by it
			before, err := os.ReadFile(old)
			f.check(err)
			was := strings.Split(string(before), "\n")
			f.note("with an old token: %s", said(socket, was[1]))
			f.note("at an old socket it is refused: %t", said(was[0], was[1]) != "ok")
		}
		f.begin()
		f.note("a second connection: %s", said(socket, token))
		if f.n == 1 {
			f.check(os.WriteFile(old, []byte(socket+"\n"+token), 0o600))
		} else {
			f.report()
		}
		f.end()
	},
	"kills its keeper": func(f *fake) { // the process of Tipstaff that started it
		f.begin()
		f.check(syscall.Kill(os.Getppid(), syscall.SIGKILL))
		time.Sleep(forever)
	},
	"stops its keeper": func(f *fake) {
		f.begin()
		f.check(syscall.Kill(os.Getppid(), syscall.SIGSTOP))
		time.Sleep(forever)
	},
	"never ends a message": func(f *fake) {
		if f.n > 1 {
			f.honest()
			return
		}
		conn, err := worker.DialChannel(context.Background(), os.Environ())
		f.check(err)
		f.say(`{"type":"system","subtype":"init","session_id":%q,"mcp_servers":[{"name":"tipstaff","status":"connected"}]}`, f.id)
		piece := []byte(strings.Repeat("x", 64<<10))
		_, err = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task_log","arguments":{"text":"`)
		sent := 0
		for ; err == nil && sent < 1<<30; sent += len(piece) {
			_, err = conn.Write(piece)
		}
		f.note("refused after 32 MiB at most: %t", err != nil && sent <= 32<<20)
		f.end()
	},
	"asks and goes on": func(f *fake) {
		f.begin()
		f.call("task_ask", `{"question":"Which?"}`)
		time.Sleep(forever)
	},
	"reports twice": func(f *fake) {
		f.begin()
		f.report()
		for _, status := range []string{"needs_review", "paused", "completed", "in_progress"} {
			text, refused := f.call("task_set_status", map[string]string{"status": status, "reason": "again"})
			f.note("%s refused=%t %s", status, refused, text)
		}
		text, refused := f.call("task_ask", `{"question":"And now?"}`)
		f.note("ask refused=%t %s", refused, text)
		f.end()
	},
	"another task": func(f *fake) {
		f.begin()
		text, refused := f.call("task_set_status", `{"status":"needs_review","reason":"mine","task":"990"}`)
		f.note("other refused=%t %s", refused, text)
		f.report()
		f.end()
	},
	"dies at once": func(f *fake) {},
	"id in use": func(f *fake) {
		if !f.resumed {
			fmt.Fprintf(os.Stderr, "Error: Session ID %s is already in use.\n", f.id)
			os.Exit(1)
		}
		f.honest()
	},
	"says what broke": func(f *fake) {
		f.begin()
		f.say(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["the disk is on fire"],"session_id":%q}`, f.id)
		syscall.Exit(1)
	},
	"tells no cost": func(f *fake) {
		f.begin()
		f.say(`{"type":"assistant","message":{"id":"m1","model":"anthropic/claude-opus-5","content":[{"type":"text","text":"hello"}]},"session_id":%q}`, f.id)
		f.report()
		f.say(`{"type":"result","subtype":"success","is_error":false,"session_id":%q,"usage":{"input_tokens":1000,"output_tokens":200}}`, f.id)
	},
}

// peak waits for the end of a process and is the most memory that it was seen to have, in
// KiB. What the system tells of a process that has ended counts whoever forked it, too.
func peak(p *cmdtest.Process) (most int) {
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &most)
		}
		select {
		case <-p.Ended:
			return most
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A worker that misbehaves is recorded as what it was; nothing of it is left, and no branch
// has moved.
func TestHostileWorkers(t *testing.T) {
	t.Parallel()
	for part, c := range map[string]struct {
		limits   string // of the worker
		code     int    // of the run
		outcomes string
		says     string // in the journal, in what the fake notes, or at the end
	}{
		"silent":            {"", 1, "no_report no_report", ""},
		"exits 3":           {"", 1, "exit", `"exit":{"code":3}`},
		"never ends":        {"wall: 2s", 1, "limit", `"which":"wall"`},
		"keeps talking":     {"wall: 3s, idle: 1s", 1, "limit", `"which":"wall"`},
		"floods retries":    {"wall: 60s, idle: 2s", 1, "limit", `"which":"idle"`},
		"is deaf":           {"wall: 1s", 1, "limit", `"signal":"`},
		"half a line":       {"", 1, "exit", `"signal":"`},
		"long line":         {"", 0, "reported", ""},
		"unknown events":    {"", 0, "reported", "from_another_world"},
		"prints a gigabyte": {"output: 8MiB", 1, "limit", `"which":"output"`},
		"leaves a child":    {"", 0, "reported", `"comm":"sleep"}],`},
		"reports twice":     {"", 0, "reported", "completed refused=true"},
		"another task":      {"", 0, "reported", "other refused=true"},
		"dies at once":      {"", 1, "empty", ""},
		"id in use":         {"", 0, "session_conflict reported", "resumed=true"},
		"says what broke":   {"", 1, "error", "worker hand: it ended with an error: the disk is on fire"},
		"tells no cost":     {"", 0, "reported", `"cost_usd":"0.01"`}, // 1,000 tokens at 5 USD and 200 at 25 USD a million
		// What it asked stands when it is stopped, at a limit or because it lingers.
		"asks and goes on":     {"wall: 2s", 4, "paused", `"question":"Which?"`},
		"kills its keeper":     {"", 1, "exit", `"signal":"SIGKILL"`},
		"stops its keeper":     {"wall: 1s", 1, "limit", `"which":"wall"`},
		"never ends a message": {"", 0, "no_report reported", "32 MiB at most: true"},
		"steals a token": {"", 0, "no_report reported", "with an old token: the token is not that of this invocation\n" +
			"at an old socket it is refused: true\n" +
			"a second connection: the channel has had its connection: an invocation has one\n"},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, part)
			w.git()
			if part == "asks and goes on" && !testing.Short() {
				c.limits = "" // then it lingers for two minutes
			}
			if c.limits != "" {
				w.configure("grace: 1s", "grace: 1s, "+c.limits)
			}
			refs := w.gitSays("for-each-ref")
			p := w.Start("run", "plan.yaml", "--unattended")
			most := peak(p)
			r := p.Wait()
			if r.Code != c.code {
				t.Fatalf("%v", r)
			}
			if most > 200<<10 || most == 0 && runtime.GOOS == "linux" {
				t.Errorf("tipstaff had %d MiB", most>>10)
			}
			run := w.runs()[0]
			if got := strings.Join(w.outcomes(run), " "); got != c.outcomes {
				t.Errorf("the outcomes are %q: %v", got, r)
			}
			if said := w.Must(0, "events", run, "--json").Out + w.Read("bin/notes") + r.Err; !strings.Contains(said, c.says) {
				t.Errorf("nothing says %q", c.says)
			}
			if got := w.gitSays("for-each-ref"); got != refs {
				t.Errorf("branches were %q, and are %q", refs, got)
			}
			w.nothingRuns()
			if c.code == 4 { // it waits
				w.Must(0, "verify", run, "--open")
				return
			}
			w.Must(0, "verify", run)
			w.Must(0, "replay", run)
		})
	}
}

// Whoever has not installed a CLI is told how.
func TestWorkerThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	w := newFake(t, "honest")
	w.Check(os.Remove(w.Path("bin/claude")))
	r := w.Run("run", "plan.yaml", "--unattended")
	if r.Code != 1 || !strings.Contains(r.Out, "worker_unavailable") || !strings.Contains(r.Out, "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("%v", r)
	}
	if w.starts() != 0 {
		t.Error("something was started")
	}
}
