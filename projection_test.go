package tipstaff

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// goldenJournals are the exports of runs that real processes have made, by name: some of
// those were killed, parked, corrected, rolled back.
func goldenJournals(t testing.TB) map[string][]Event {
	t.Helper()
	f, err := os.Open("test/golden/v1/exports.tar.bz2")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]Event{}
	for r := tar.NewReader(bzip2.NewReader(f)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(h.Name) != "records.ndjson" {
			continue
		}
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<24)
		name := filepath.Base(filepath.Dir(h.Name))
		for lines.Scan() {
			e, err := ParseEvent([]byte(lines.Text()))
			if err != nil {
				t.Fatal(name, err)
			}
			all[name] = append(all[name], e)
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d journals", len(all))
	}
	return all
}

// viewOf is a view of records, of a pipeline if their draft says so.
func viewOf(events []Event) *View {
	var o *Outline
	if len(events) > 0 && BodyOf[IntentDraft](&events[0]).ProgramKind == ProgramPipeline {
		o = &Outline{Kind: ProgramPipeline, ID: "p"}
	}
	v := NewView("", o)
	for i := range events {
		v.Apply(&events[i])
	}
	return v
}

// projected is everything that a view shows, as text.
func projected(v *View, now time.Time) string {
	var b strings.Builder
	status, _ := json.Marshal(&v.Fold)
	fmt.Fprintf(&b, "%s %s %s\n", v.Status, v.Why, status)
	for _, r := range v.Rows(now) {
		fmt.Fprintf(&b, "%*s%s %s %s %s %v %q attempts %d cost %d child %s gates %v %v\n", 2*r.Depth, "", r.Shown, r.Path, r.Name, r.Title, r.Elapsed, r.Note, r.Attempts, r.Cost, r.Child, r.Gates, r.Superseded)
		for _, s := range r.Spans() {
			fmt.Fprintf(&b, "    %d %s %s %s %v–%v %d–%d %d %s %s %+v %+v\n", s.Kind, s.Path, s.Name, s.State, s.Started(), s.Ended(), s.First, s.Last, s.Cost, s.Class, s.Digest(), s.Approval, s.More())
		}
	}
	l := v.life(Running, now)
	fmt.Fprintf(&b, "%s %+v\n", l, *l)
	for _, q := range []TimelineQuery{{}, {Real: true, Width: 300}, {From: v.Created.Add(time.Millisecond), To: v.At.Add(-time.Millisecond)}} {
		t := v.Timeline(q, now)
		fmt.Fprintf(&b, "%+v\n%+v\n", t.Breaks, t.Marks)
		for _, r := range t.Rows {
			fmt.Fprintf(&b, "%+v\n", r)
		}
	}
	return b.String()
}

// continues fails unless a view that was looked at after every record equals, each time,
// one that was made of the same records at once. So does a copy that was made before: it
// stays as it was until it is told of the records itself.
func continues(t interface{ Fatalf(string, ...any) }, events []Event) {
	v := viewOf(events[:0])
	if len(events) > 0 {
		v = viewOf(events[:1])
	}
	var held *View
	var heldAt int
	var was string
	for n := 1; n <= len(events); n++ {
		if n > 1 {
			v.Apply(&events[n-1])
		}
		if testing.Short() && n > 20 && n%10 > 0 && n < len(events) {
			continue // to look after each of many takes minutes under the race detector
		}
		now := events[n-1].At.Add(3 * time.Second)
		if fresh, continued := projected(viewOf(events[:n]), now), projected(v, now); fresh != continued {
			t.Fatalf("as of record %d:\n%s", n, cmp.Diff(fresh, continued))
		} else if held == nil {
			held, heldAt, was = v.Clone(), n, fresh
		} else {
			if is := projected(held, events[heldAt-1].At.Add(3*time.Second)); is != was {
				t.Fatalf("the copy of record %d has changed:\n%s", heldAt, cmp.Diff(was, is))
			}
			for i := heldAt; i < n; i++ {
				held.Apply(&events[i])
			}
			if copied := projected(held, now); fresh != copied {
				t.Fatalf("as of record %d, from a copy of record %d:\n%s", n, heldAt, cmp.Diff(fresh, copied))
			}
			held = nil
		}
	}
}

func TestRealJournalsAreSeenAsOfAnyRecord(t *testing.T) {
	for name, events := range goldenJournals(t) {
		t.Run(name, func(t *testing.T) { continues(t, events) })
	}
}

func TestAnyRecordsAreSeenAsOfAnyRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := append(accepted(), rapid.SliceOfN(someEvent(), 1, 12).Draw(t, "events")...)
		for i := range events {
			events[i].Seq = int64(i + 1)
		}
		continues(t, events)
	})
}

// longTurn is a run of about n records: an agent that calls models and tools.
func longTurn(n int) []Event {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{"epoch":1}`)
	j.add(KindPlanStep, "turn", 1, `{"node":"turn","status":"started"}`)
	digest := "sha256:" + strings.Repeat("5a", 32)
	for step := 1; len(j) < n; step++ {
		model := fmt.Sprintf("turn/model#%d", step)
		j.add(KindAgentStepStarted, model, 1, fmt.Sprintf(`{"step":%d,"model":"scripted"}`, step))
		j.add(KindEffectIntended, model, 1, `{"name":"model.call","class":"read","attempt":1,"digest":"`+digest+`","input":{"model":"scripted"},"reserve":{"tokens":100,"cost_usd":5}}`)
		j.add(KindEffectFinished, model, 1, `{"name":"model.call","attempt":1,"digest":"`+digest+`","value":{"text":"I look."},"ms":700,"use":{"tokens":50,"cost_usd":3}}`)
		j.add(KindAgentMessage, model, 1, fmt.Sprintf(`{"step":%d,"text":"I look.","calls":1,"usage":{"total_tokens":50}}`, step))
		tool := fmt.Sprintf("turn/tool#%d.1", step)
		j.add(KindAgentToolCallRequest, tool, 1, fmt.Sprintf(`{"step":%d,"index":1,"id":"tip_%d","server":"builtin","tool":"read_file","arguments":{"path":"sum.txt"}}`, step, step))
		j.add(KindAgentApprovalDecided, tool, 1, fmt.Sprintf(`{"id":"tip_%d","decision":"allow","by":"policy","rule":"reads"}`, step))
		j.add(KindEffectIntended, tool, 1, `{"name":"tool.call","class":"read","attempt":1,"digest":"`+digest+`","input":{"uri":"mcp://builtin/read_file@1.0.0"},"reserve":{"tool_calls":1}}`)
		j.add(KindEffectFinished, tool, 1, `{"name":"tool.call","attempt":1,"digest":"`+digest+`","value":{"content":[]},"ms":200}`)
		j.add(KindAgentToolCallResult, tool, 1, fmt.Sprintf(`{"id":"tip_%d","content":"x"}`, step))
	}
	return j
}

// manyCalls is a run of about n records, two for each call, of one step after the other or,
// if they are spread, of 150 in turns.
func manyCalls(n int, spread bool) []Event {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{"epoch":1}`)
	digest := "sha256:" + strings.Repeat("5a", 32)
	for i := 0; len(j) < n; i++ {
		step := i / 100
		if spread {
			step = i % 150
		}
		path := fmt.Sprintf("step#%d/tool#%d.1", step, i)
		j.add(KindEffectIntended, path, 1, `{"name":"tool.call","class":"once","attempt":1,"digest":"`+digest+`","input":{},"reserve":{"tool_calls":1}}`)
		j.add(KindEffectFinished, path, 1, `{"name":"tool.call","attempt":1,"digest":"`+digest+`","value":{},"ms":200}`)
	}
	return j
}

// heldBy is a view of records, and how many bytes it keeps.
func heldBy(events []Event) (*View, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := viewOf(events)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(events)
	return v, float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// The view of 100,000 records takes at most 16 MiB, and that of fewer as much less.
func TestViewOfALongRunIsSmall(t *testing.T) {
	records := 100_000
	if testing.Short() {
		records = 10_000
	}
	for name, events := range map[string][]Event{"turn": longTurn(records), "calls": manyCalls(records, false), "branches": manyCalls(records, true)} {
		v, bytes := heldBy(events)
		if most := float64(16<<20) * float64(records) / 100_000; bytes > most {
			t.Errorf("%s: the view of %d records takes %.1f MiB, at most %.1f", name, v.Seq, bytes/(1<<20), most/(1<<20))
		}
	}
}

// BenchmarkView folds 100,000 records, and says how many bytes the fold keeps.
func BenchmarkView(b *testing.B) {
	for name, events := range map[string][]Event{"turn": longTurn(100_000), "calls": manyCalls(100_000, false)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				viewOf(events)
			}
			v, bytes := heldBy(events)
			b.ReportMetric(bytes/(1<<20), "MiB")
			start := time.Now()
			b.ReportMetric(float64(v.Clone().Seq)/time.Since(start).Seconds(), "copied/s")
			start = time.Now()
			t := v.Timeline(TimelineQuery{}, v.At)
			b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/timeline")
			runtime.KeepAlive(t)
			runtime.KeepAlive(v)
		})
	}
}
