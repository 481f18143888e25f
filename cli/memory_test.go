package cli

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// fakeMemory answers as scripted, and keeps what it was asked.
type fakeMemory struct {
	items   []tipstaff.MemoryItem
	err     error
	weights tipstaff.MemoryWeights
	log     []tipstaff.MemoryRecord
	report  tipstaff.MemoryReport

	query      tipstaff.MemoryQuery
	recalled   tipstaff.RecallRequest
	remembered tipstaff.RememberRequest
	asked      string
	after      int64
	checked    []bool
}

func (m *fakeMemory) Items(_ context.Context, q tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	m.query = q
	return m.items, m.err
}

func (m *fakeMemory) Item(_ context.Context, item string) (tipstaff.MemoryItem, error) {
	m.asked = item
	return m.first(), m.err
}

func (m *fakeMemory) first() tipstaff.MemoryItem {
	if len(m.items) == 0 {
		return tipstaff.MemoryItem{}
	}
	return m.items[0]
}

func (m *fakeMemory) Recall(_ context.Context, req tipstaff.RecallRequest) ([]tipstaff.MemoryItem, error) {
	m.recalled = req
	return m.items, m.err
}

func (m *fakeMemory) Weights(context.Context) (tipstaff.MemoryWeights, error) {
	return m.weights, m.err
}

func (m *fakeMemory) Log(_ context.Context, after int64) iter.Seq2[tipstaff.MemoryRecord, error] {
	m.after = after
	return func(yield func(tipstaff.MemoryRecord, error) bool) {
		for _, r := range m.log {
			if !yield(r, nil) {
				return
			}
		}
		if m.err != nil {
			yield(tipstaff.MemoryRecord{}, m.err)
		}
	}
}

func (m *fakeMemory) Remember(_ context.Context, req tipstaff.RememberRequest) (tipstaff.MemoryItem, error) {
	m.remembered = req
	return m.first(), m.err
}

func (m *fakeMemory) Forget(_ context.Context, item string) (tipstaff.MemoryItem, error) {
	m.asked = item
	return m.first(), m.err
}

func (m *fakeMemory) Rebuild(_ context.Context, check bool) (tipstaff.MemoryReport, error) {
	m.checked = append(m.checked, check)
	return m.report, m.err
}

const itemA = "cortex://fact/01JCQ8R4T50000000000000001"

func remembers(m *fakeMemory) *fakeMemory {
	m.items = []tipstaff.MemoryItem{{Item: itemA, Type: "fact", Text: "one\x1b[31m\ntwo", Importance: 8, Pinned: true, By: "local:cli", Seq: 1,
		CreatedAt: epoch, LastUsedAt: epoch.Add(time.Hour), Server: "builtin", Verb: "build", Score: 712345678}}
	return m
}

func TestMemoryList(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "list", "--type", "fact", "--limit", "7")
	equal(t, "stdout", b.out.String(), itemA+"  2026-11-15 02:30:00  one\\u001b[31m\\ntwo\n")
	if b.memory.query != (tipstaff.MemoryQuery{Type: "fact", Limit: 7}) || !b.opened[0].ReadOnly {
		t.Errorf("asked for %+v, opened with %+v", b.memory.query, b.opened[0])
	}
}

func TestMemoryListFitsATerminal(t *testing.T) {
	b := newBench(t).terminal()
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "list")
	equal(t, "stdout", b.out.String(), itemA+"  2026-11-15 02:30:…\n")
}

func TestMemoryOfNothing(t *testing.T) {
	b := newBench(t)
	b.memory = &fakeMemory{}
	b.run(t, 0, "memory", "list")
	equal(t, "stdout", b.out.String(), "")
	contains(t, "stderr", b.err.String(), "nothing is remembered")
}

func TestMemoryShow(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "show", itemA)
	equal(t, "stdout", b.out.String(), `item        `+itemA+`
text        one\u001b[31m\ntwo
about       verb build, server builtin
importance  8
standing    pinned
score       0.712345678
accesses    0
citations   0
created     2026-11-15 02:30:00
last used   2026-11-15 03:30:00
by          local:cli
`)
	equal(t, "asked", b.memory.asked, itemA)
}

func TestMemoryRecall(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "recall", "--skill", "s", "--verb", "v", "--server", "w")
	equal(t, "stdout", b.out.String(), "0.712345678  "+itemA+"  one\\u001b[31m\\ntwo\n")
	if b.memory.recalled != (tipstaff.RecallRequest{Skill: "s", Verb: "v", Server: "w"}) {
		t.Errorf("asked for %+v", b.memory.recalled)
	}
}

func TestMemoryWeights(t *testing.T) {
	b := newBench(t)
	b.memory = &fakeMemory{weights: tipstaff.MemoryWeights{R: 250000000, A: 150000000, C: 300000000, D: 200000001, V: 99999999}}
	b.run(t, 0, "memory", "weights")
	contains(t, "stdout", b.out.String(), "R  0.250000000  recency", "D  0.200000001", "V  0.099999999")
	b = newBench(t)
	b.memory = &fakeMemory{weights: tipstaff.MemoryWeights{R: 250000000, A: 1, C: 2, D: 3, V: 4}}
	b.run(t, 0, "memory", "weights", "--json")
	equal(t, "stdout", b.out.String(), `{"R":250000000,"A":1,"C":2,"D":3,"V":4}`+"\n")
}

func TestMemoryLog(t *testing.T) {
	b := newBench(t)
	b.memory = &fakeMemory{log: []tipstaff.MemoryRecord{{Seq: 3, Kind: "attest", At: epoch, Run: runA, Text: "success, 2 cited", Raw: []byte(`{"seq":3}`)}}}
	b.run(t, 0, "memory", "log", "--after", "2")
	equal(t, "stdout", b.out.String(), "    3  2026-11-15 02:30:00  attest         "+runA.String()+"  success, 2 cited\n")
	if b.memory.after != 2 {
		t.Errorf("after %d", b.memory.after)
	}
	again := newBench(t)
	again.memory = b.memory
	again.run(t, 0, "memory", "log", "--json")
	equal(t, "stdout", again.out.String(), `{"seq":3}`+"\n")
	newBench(t).run(t, 2, "memory", "log", "--after", "-1")
}

func TestMemoryRemember(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "remember", "fact", "the text", "--importance", "8", "--pin", "--server", "builtin")
	equal(t, "stdout", b.out.String(), "remembered "+itemA+"\n")
	want := tipstaff.RememberRequest{Type: "fact", Text: "the text", Importance: 8, Pinned: true, Server: "builtin"}
	if b.memory.remembered != want || b.opened[0].ReadOnly {
		t.Errorf("remembered %+v, opened with %+v", b.memory.remembered, b.opened[0])
	}
	b = newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 2, "memory", "remember", "fact")
	contains(t, "stderr", b.err.String(), "needs TEXT")
}

func TestMemoryForget(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "memory", "forget", itemA)
	equal(t, "stdout", b.out.String(), "forgotten "+itemA+"\n")
	b = newBench(t)
	b.memory = &fakeMemory{err: tipstaff.Errorf(tipstaff.ArtifactNotFound, "nothing is remembered as that")}
	b.run(t, 3, "memory", "forget", itemA)
}

func soundMemory() tipstaff.MemoryReport {
	return tipstaff.MemoryReport{Seq: 3, Head: "sha256:h", Items: 1, Attests: 1,
		Log: tipstaff.Finding{OK: true, Problems: []tipstaff.Problem{}}, State: tipstaff.Finding{OK: true, Problems: []tipstaff.Problem{}}}
}

func brokenMemory() tipstaff.MemoryReport {
	r := soundMemory()
	r.Log = tipstaff.Finding{Total: 1, Problems: []tipstaff.Problem{{Code: "gap", Seq: 3, Message: "record 3 follows record 1"}}}
	return r
}

func TestMemoryRebuild(t *testing.T) {
	b := newBench(t)
	b.memory = &fakeMemory{report: soundMemory()}
	b.memory.report.Rebuilt = 2
	b.run(t, 0, "memory", "rebuild")
	equal(t, "stdout", b.out.String(), "memory   3 records, 1 item, 1 ended run\nhead     sha256:h\nrebuilt  2 rows put right\nlog: ok\nstate: ok\n")
	if b.memory.checked[0] || b.opened[0].ReadOnly {
		t.Errorf("checked %v, opened with %+v", b.memory.checked, b.opened[0])
	}
	b = newBench(t)
	b.memory = &fakeMemory{report: brokenMemory()}
	b.run(t, 6, "memory", "rebuild", "--check")
	contains(t, "stdout", b.out.String(), "log: 1 problem", "seq 3: gap: record 3 follows record 1")
	if !b.memory.checked[0] || !b.opened[0].ReadOnly {
		t.Errorf("checked %v, opened with %+v", b.memory.checked, b.opened[0])
	}
}

func TestVerifyMemory(t *testing.T) {
	sound := tipstaff.Finding{OK: true, Problems: []tipstaff.Problem{}}
	faulty := tipstaff.Finding{Total: 1, Problems: []tipstaff.Problem{{Code: "c", Message: "m"}}}
	for _, c := range []struct {
		name      string
		run       *tipstaff.Report
		memory    tipstaff.MemoryReport
		memoryErr error
		want      int
	}{
		{"memory alone", nil, soundMemory(), nil, 0},
		{"memory alone, broken", nil, brokenMemory(), nil, 6},
		{"both sound", &tipstaff.Report{Integrity: sound, Conformance: sound}, soundMemory(), nil, 0},
		{"run does not conform", &tipstaff.Report{Integrity: sound, Conformance: faulty}, soundMemory(), nil, 7},
		{"integrity goes first", &tipstaff.Report{Integrity: sound, Conformance: faulty}, brokenMemory(), nil, 6},
		{"memory broken", &tipstaff.Report{Integrity: sound, Conformance: sound}, brokenMemory(), nil, 6},
		{"memory unreadable", &tipstaff.Report{Integrity: faulty, Conformance: sound}, soundMemory(), tipstaff.Errorf(tipstaff.StoreBusy, "busy"), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.memory = &fakeMemory{report: c.memory, err: c.memoryErr}
			args := []string{"verify", "--memory"}
			if c.run != nil {
				b.svc.runs = []tipstaff.Run{{ID: runA}}
				b.svc.verify = func(tipstaff.VerifyRequest) (tipstaff.Report, error) { return *c.run, nil }
				args = append(args, runA.String())
			}
			b.run(t, c.want, args...)
			if len(b.memory.checked) != 1 || !b.memory.checked[0] {
				t.Errorf("checked %v", b.memory.checked)
			}
		})
	}
	newBench(t).run(t, 2, "verify")
}

// The memory of a server is not to be had: that is said before anything is connected to.
func TestVerifyMemoryOfAServer(t *testing.T) {
	for _, args := range [][]string{{"verify", "--memory"}, {"verify", runA.String(), "--memory"}, {"verify", "@", "--memory", "--server", "127.0.0.1:1"}} {
		b := newBench(t)
		b.vars["TIPSTAFF_SERVER"] = "127.0.0.1:1"
		b.run(t, 2, args...)
		contains(t, strings.Join(args, " "), b.err.String(), "error: --memory checks the memory of a local workspace; the runs are at 127.0.0.1:1\n")
	}
	b := newBench(t)
	b.vars["TIPSTAFF_SERVER"] = "127.0.0.1:1"
	b.memory = &fakeMemory{report: soundMemory()}
	sound := tipstaff.Finding{OK: true, Problems: []tipstaff.Problem{}}
	b.svc.verify = func(tipstaff.VerifyRequest) (tipstaff.Report, error) {
		return tipstaff.Report{Integrity: sound, Conformance: sound}, nil
	}
	b.run(t, 0, "verify", t.TempDir(), "--memory") // a folder lies on this machine
}

func TestMemoryCompletion(t *testing.T) {
	b := newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "__complete", "memory", "show", "cortex://f")
	contains(t, "stdout", b.out.String(), itemA)
	b = newBench(t)
	b.memory = remembers(&fakeMemory{})
	b.run(t, 0, "__complete", "memory", "remember", "")
	contains(t, "stdout", b.out.String(), "preference")
}
