package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/webtest"
)

// A run from its submission to its end: what is shown of it on the way, that a decision is
// stored once and moves nothing, and that a stream tells all of it, from wherever it is read.
func TestARunOverHTTP(t *testing.T) {
	b := newAPI(t)
	made := b.want(202, "alice", "POST", "/runs", object{"program": webtest.Gated("a.txt"), "title": "\x1b[31mred\n", "bounds": object{"tool_calls": 5}})
	run := made.member(t, "run").(string)
	at := "/runs/" + run
	if made.member(t, "events_url") != at+"/events" || made.member(t, "state") == nil || made.member(t, "position") != 0.0 {
		t.Errorf("it is told %s", made.body)
	}
	live := b.stream("alice", run, "")
	if live.StatusCode != 200 || live.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream is %v", live)
	}
	b.Rest(run)
	for _, path := range []string{at, at + "/status"} {
		a := b.want(200, "alice", "GET", path+"?include=all", nil)
		if a.member(t, "status") != "awaiting_decision" || a.member(t, "run_id") != run || a.member(t, "bounds", "tool_calls", "limit") != "5" || a.member(t, "document", "kind") != "plan" ||
			a.member(t, "title") != "\x1b[31mred\n" || bytes.ContainsRune(a.body, '\x1b') {
			t.Errorf("%s says %s", path, a.body)
		}
	}
	gates := b.get("alice", at).member(t, "open_gates").([]any)
	gate := gates[0].(object)["gate_id"].(string)
	byKey := at + "/gates/" + strings.ReplaceAll(gates[0].(object)["key"].(string), "/", "%2F")
	for _, path := range []string{at + "/gates/" + gate, byKey} {
		if a := b.want(200, "alice", "GET", path, nil); a.member(t, "gate_id") != gate || a.member(t, "question") != "Go on?" || a.member(t, "shown") == nil {
			t.Errorf("%s says %s", path, a.body)
		}
	}
	if a := b.want(200, "alice", "GET", "/pending?kinds=question", nil); a.member(t, "total") != 1.0 {
		t.Errorf("what is pending: %s", a.body)
	}
	if a := b.want(200, "alice", "GET", "/runs?status=awaiting_decision&limit=1", nil); a.member(t, "total") != 1.0 || len(a.member(t, "items").([]any)) != 1 {
		t.Errorf("the runs: %s", a.body)
	}
	for path, name := range map[string]string{"diagnose": "condition", "metrics": "exact", "evidence?slice=steps": "steps", "diff": "found", "delivery": "kind", "verify": "integrity", "events?limit=2&detail=full": "events"} {
		if a := b.want(200, "alice", "GET", at+"/"+path, nil); a.member(t, name) == nil {
			t.Errorf("%s says %s", path, a.body)
		}
	}

	// A decision moves nothing. The same again, by key too, has the same bytes.
	b.want(422, "alice", "POST", at+"/gates/"+gate+"/decision", object{"action": "explode"})
	head := b.get("alice", at).member(t, "head_seq")
	first := b.want(200, "alice", "POST", at+"/gates/"+gate+"/decision", object{"action": "approve", "note": "why not"})
	for _, path := range []string{at + "/gates/" + gate, byKey} {
		if again := b.want(200, "alice", "POST", path+"/decision", object{"action": "approve", "note": "why not"}); !bytes.Equal(first.body, again.body) || again.header.Get("Tipstaff-Replayed") != "true" {
			t.Errorf("again it is\n%s, first\n%s", again.body, first.body)
		}
	}
	if a := b.want(409, "alice", "POST", at+"/gates/"+gate+"/decision", object{"action": "deny"}); a.code(t) != "decision_conflict" {
		t.Errorf("another is told %s", a.body)
	}
	if a := b.get("alice", at); a.member(t, "status") != "awaiting_resume" || a.member(t, "head_seq") != head.(float64)+1 {
		t.Errorf("after the decision the run is %s", a.body)
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "a.txt")); err == nil {
		t.Error("a decision has moved the run")
	}
	b.want(202, "alice", "POST", at+"/resume", nil)
	if end := b.Rest(run); end.State != "completed" {
		t.Fatalf("the run is %+v", end)
	}
	for _, verb := range []string{"resume", "cancel"} {
		if a := b.want(409, "alice", "POST", at+"/"+verb, object{}); a.code(t) != "run_ended" {
			t.Errorf("%s of what has ended is told %s", verb, a.body)
		}
	}

	// The stream has had every record, each the bytes that are stored, and its end.
	told := events(t, live.Body, nil)
	if last := told[len(told)-1]; last.event != "end" || last.id != "" {
		t.Errorf("the stream ends with %+v", last)
	}
	var records []sse
	for _, e := range told {
		if e.id != "" {
			records = append(records, e)
		}
	}
	for i, e := range records {
		if e.id != fmt.Sprint(i+1) {
			t.Fatalf("record %d has the id %s", i+1, e.id)
		}
	}
	page := b.want(200, "alice", "GET", at+"/envelopes?limit=2", nil)
	next := page.member(t, "next").(float64)
	rest := b.want(200, "alice", "GET", at+"/envelopes?after="+fmt.Sprint(next), nil)
	if rest.member(t, "next") != nil {
		t.Errorf("there are more after %s", rest.body)
	}
	var stored struct{ Items []json.RawMessage }
	for _, a := range []answer{page, rest} {
		if err := json.Unmarshal(a.body, &stored); err != nil {
			t.Fatal(err)
		}
		for _, item := range stored.Items {
			var of struct{ Seq int }
			if err := json.Unmarshal(item, &of); err != nil {
				t.Fatal(err)
			}
			if one := b.want(200, "alice", "GET", fmt.Sprintf("%s/envelopes/%d", at, of.Seq), nil); string(one.body) != string(item) || records[of.Seq-1].data != string(item) {
				t.Errorf("record %d is\n%s, alone\n%s, in the stream\n%s", of.Seq, item, one.body, records[of.Seq-1].data)
			}
		}
	}
	// Whoever comes later, or again, has exactly the rest; after the end there is nothing.
	for last := range len(records) + 2 {
		res := b.stream("alice", run, strconv.Itoa(last))
		if last >= len(records) {
			if res.StatusCode != http.StatusNoContent {
				t.Errorf("after %d of %d records it is answered %d", last, len(records), res.StatusCode)
			}
			continue
		}
		got := events(t, res.Body, nil)
		if len(got) != len(records)-last+1 || got[0] != records[last] || got[len(got)-1].event != "end" {
			t.Errorf("after %d come %d events: %+v", last, len(got), got)
		}
	}
	// A program that is not run is checked all the same.
	if a := b.want(200, "alice", "POST", "/runs", object{"program": json.RawMessage(`{"kind":"plan","version":1,"root":{"id":"a","kind":"gate","question":"?"}}`), "dry_run": true}); a.member(t, "program", "kind") != "plan" {
		t.Errorf("a dry run says %s", a.body)
	}
	if a := b.get("alice", "/runs"); a.member(t, "total") != 1.0 {
		t.Errorf("a dry run has made %s", a.body)
	}
}
