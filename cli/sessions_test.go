package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// fakeSessions are those of workers; it answers by the query.
type fakeSessions struct {
	tipstaff.Sessions
	all   []tipstaff.WorkerSession
	asked []tipstaff.SessionQuery
}

func (f *fakeSessions) WorkerSessions(_ context.Context, q tipstaff.SessionQuery) (found []tipstaff.WorkerSession, err error) {
	f.asked = append(f.asked, q)
	for _, w := range f.all {
		over := w.State == tipstaff.SessionClosed || w.State == tipstaff.SessionLost
		if strings.HasPrefix(w.ID, q.Prefix) && (q.Run == "" || w.Run == q.Run) && (q.All || !over) {
			found = append(found, w)
		}
	}
	return found, nil
}

const (
	workerA = "01JCQ9B00000000000000000W1" // waits for an answer
	workerB = "01JCQ9B00000000000000000W2" // is at work
	workerC = "01JCQ9B00000000000000000W3" // is over
	workerD = "01JCQ9C00000000000000000W4" // of a step, lost
	workerE = "01JCQ9C00000000000000000W5" // of a task, lost
)

// sessionsBench has a chat, and sessions of workers with the logs of one.
func sessionsBench(t *testing.T) (*talks, *fakeSessions) {
	k := newTalks(t).earlier()
	dir := t.TempDir()
	k.vars["TIPSTAFF_WORKSPACE"] = dir
	logs := filepath.Join(".tipstaff", "runs", runA.String(), "workers")
	if err := os.MkdirAll(filepath.Join(dir, logs), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"01INV2.jsonl": `{"type":"system"}` + "\n" + `{"text":"\u001b[2J"}` + "\n", "01INV2.log": "claude began\n\x1b[2Jit calls Bash\n", "01INV1.log": "the first\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, logs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended := tipstaff.SessionInvocation{ID: "01INV1", Started: epoch, Ended: epoch.Add(time.Minute), Outcome: "paused"}
	going := tipstaff.SessionInvocation{ID: "01INV2", Started: epoch.Add(2 * time.Minute), Identity: tipstaff.ProcessIdentity{Pid: 4711}}
	of := func(id string, state tipstaff.SessionState, task string, after time.Duration, i ...tipstaff.SessionInvocation) tipstaff.WorkerSession {
		return tipstaff.WorkerSession{ID: id, SessionID: "cli-" + id[25:], Worker: "careful", CLIVersion: "2.1.197", State: state, Task: task, Run: runA.String(), Path: "root/fix", User: "local",
			Dir: "/w/tree", Host: "here", Posture: "auto", Folder: filepath.Join(logs, id), Totals: tipstaff.SessionTotals{CostUSD: 420_000_000}, UpdatedAt: epoch.Add(after), Invocations: i}
	}
	running := of(workerB, tipstaff.SessionLive, "020", -time.Minute, ended, going)
	running.Lease = &flow.Owner{}
	f := &fakeSessions{all: []tipstaff.WorkerSession{
		of(workerA, tipstaff.SessionLive, "010", time.Minute, ended), running, of(workerC, tipstaff.SessionClosed, "030", -2*time.Minute, ended),
		of(workerD, tipstaff.SessionLost, runB.String(), -3*time.Minute, ended), of(workerE, tipstaff.SessionLost, "040", -4*time.Minute),
	}}
	k.sessions = f
	return k, f
}

func TestSessionsOfAllKinds(t *testing.T) {
	k, f := sessionsBench(t)
	k.run(t, 0, "sessions")
	equal(t, "stdout", k.out.String(), `SESSION                     KIND    LAST USED            STATE      WITH     TO GO ON                                            LAST WORDS
`+workerA+`  worker  2026-11-15 02:31:00  live       careful  tipstaff task resume 010                            paused
`+sessionA+`  chat    2026-11-15 02:30:00  completed  default  tipstaff chat --session `+sessionA+`  How are you?
`+workerB+`  worker  2026-11-15 02:29:00  running    careful  tipstaff watch `+runA.String()+`           \u001b[2Jit calls Bash
`)
	if len(f.asked) != 1 || f.asked[0] != (tipstaff.SessionQuery{}) {
		t.Errorf("asked %+v", f.asked)
	}
}

func TestSessionsOfWorkers(t *testing.T) {
	k, _ := sessionsBench(t)
	k.run(t, 0, "sessions", "--kind", "worker", "--all")
	equal(t, "stdout", k.out.String(), `SESSION                     LAST USED            STATE    WORKER   TASK                        PID   COST   TO GO ON                                    DIR      LAST EVENT
`+workerA+`  2026-11-15 02:31:00  live     careful  010                         -     $0.42  tipstaff task resume 010                    /w/tree  paused
`+workerB+`  2026-11-15 02:29:00  running  careful  020                         4711  $0.42  tipstaff watch `+runA.String()+`   /w/tree  \u001b[2Jit calls Bash
`+workerC+`  2026-11-15 02:28:00  closed   careful  030                         -     $0.42  -                                           /w/tree  paused
`+workerD+`  2026-11-15 02:27:00  lost     careful  `+runB.String()+`  -     $0.42  tipstaff resume `+runA.String()+`  /w/tree  paused
`+workerE+`  2026-11-15 02:26:00  lost     careful  040                         -     $0.42  tipstaff task resume 040 --fresh            /w/tree
`)
	k.out.Reset()
	k.run(t, 0, "sessions", "--kind", "worker", "--json")
	first, _, _ := strings.Cut(k.out.String(), "\n")
	equal(t, "json", first, `{"kind":"worker","session":"`+workerA+`","user":"local","state":"live","updated_at":"2026-11-15T02:31:00Z","command":"tipstaff task resume 010",`+
		`"worker":"careful","session_id":"cli-1","task":"010","run_id":"`+runA.String()+`","path":"root/fix","dir":"/w/tree","cost_usd":"0.42","invocations":1,"last_event":"paused"}`)

	none, _ := sessionsBench(t)
	none.sessions = &fakeSessions{}
	none.run(t, 0, "sessions", "--kind", "worker")
	equal(t, "none", none.err.String(), "no worker has a session that can be gone on with; --all lists those that are over\n")
}

func TestOneSession(t *testing.T) {
	k, _ := sessionsBench(t)
	k.run(t, 0, "sessions", sessionA)
	contains(t, "a chat", k.out.String(), "to go on   tipstaff chat --session "+sessionA+"\n\n› How are you?\n")

	k, _ = sessionsBench(t)
	k.run(t, 0, "sessions", strings.ToLower(workerB))
	contains(t, "a worker", k.out.String(), "worker      careful 2.1.197\nits own id  cli-2\nstate       running\n")
	contains(t, "a worker", k.out.String(), "invocation  01INV1  2026-11-15 02:30:00  1m00s  paused\ninvocation  01INV2  2026-11-15 02:32:00  not ended\n\nclaude began\n")

	for _, c := range []struct {
		args []string
		tty  bool
		want string
	}{
		{[]string{workerB, "--log"}, false, "claude began\n\x1b[2Jit calls Bash\n"},
		{[]string{workerB, "--log"}, true, "claude began\n\\u001b[2Jit calls Bash\n"},
		{[]string{workerB, "--raw"}, false, "{\"type\":\"system\"}\n{\"text\":\"\\u001b[2J\"}\n"},
	} {
		k, _ := sessionsBench(t)
		k.env.StdoutTTY = c.tty
		k.run(t, 0, append([]string{"sessions"}, c.args...)...)
		equal(t, strings.Join(c.args, " "), k.out.String(), c.want)
	}

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"01JCQ9B"}, 2, "more than one session begins with 01JCQ9B"},
		{[]string{"01JZZZ"}, 2, "there is no session"},
		{[]string{sessionA, "--kind", "worker"}, 2, "there is no session \"" + sessionA + "\" of a worker"},
		{[]string{workerA, "--kind", "chat"}, 2, "there is no session"},
		{[]string{sessionA, "--log"}, 2, "of a worker"},
		{[]string{workerA, "--raw"}, 3, "there is no file"},
		{[]string{workerE, "--raw"}, 2, "no invocation yet"},
		{[]string{workerB, "--raw", "--log"}, 2, "exclude each other"},
		{[]string{"--log"}, 2, "name it"},
		{[]string{"--kind", "both"}, 2, "neither chat nor worker"},
		{[]string{sessionA, "--kind", "chat", "--log"}, 2, "sessions of workers"},
	} {
		k, _ := sessionsBench(t)
		k.run(t, c.code, append([]string{"sessions"}, c.args...)...)
		contains(t, strings.Join(c.args, " "), k.err.String(), c.says)
	}
}

// A server has chats alone: the files of workers' sessions are not here.
func TestSessionsOfAServer(t *testing.T) {
	k, _ := sessionsBench(t)
	k.sessions = nil
	k.served()
	k.run(t, 0, "sessions")
	contains(t, "stdout", k.out.String(), sessionA+"  chat")
	k.run(t, 2, "sessions", "--kind", "worker")
	contains(t, "stderr", k.err.String(), "--server does not apply")
}

// Of very many the newest are listed, and --all lists them all.
func TestManySessions(t *testing.T) {
	k, _ := sessionsBench(t)
	one := k.svc.heads[0]
	for i := range mostListed + 3 {
		r := one
		r.ID = tipstaff.NewID(epoch.Add(time.Duration(i) * time.Millisecond))
		r.UpdatedAt = epoch.Add(-time.Duration(i+10) * time.Hour)
		k.svc.heads = append(k.svc.heads, r)
	}
	k.run(t, 0, "sessions")
	if lines := strings.Count(k.out.String(), "\n"); lines != 1+mostListed {
		t.Errorf("%d lines", lines)
	}
	equal(t, "stderr", k.err.String(), "6 older sessions not listed; --all lists them\n")
	k.out.Reset()
	k.run(t, 0, "sessions", "--all")
	if lines := strings.Count(k.out.String(), "\n"); lines != 1+mostListed+3+1+5 {
		t.Errorf("with --all %d lines", lines)
	}
}

// A run tells of its workers as the live tree does.
func TestShowTellsOfWorkers(t *testing.T) {
	k, f := sessionsBench(t)
	k.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: "awaiting_decision", Program: tipstaff.Program{Kind: "plan"}})
	k.svc.append("run.started", "", `{}`)
	k.svc.append("worker.started", "root/fix/worker#1", `{"invocation":"01INV1","session":"`+workerA+`","worker":"careful"}`)
	k.svc.append("worker.ended", "root/fix/worker#1", `{"invocation":"01INV1","outcome":"paused","steps":2,"duration_ms":6000,"usage":{"cost_usd":"0.40"}}`)
	k.run(t, 0, "show", runA.String())
	contains(t, "stdout", k.out.String(), "\nworker     ✓ careful  01JCQ9B000  6.0s  paused  2 steps  $0.40\n")
	f.all, k.svc.log = nil, nil
	k.out.Reset()
	k.run(t, 0, "show", runA.String())
	if strings.Contains(k.out.String(), "\nworker") {
		t.Errorf("a run without workers tells of one: %s", k.out)
	}
}
