package agent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

var someEvents = []string{
	`{"type":"step_started","seq":7,"path":"turn/model#1","step":1,"model":"m","messages":1,"tools":2,"est_input_tokens":30,"cut":{"elided":0,"dropped":0}}`,
	`{"type":"text_delta","path":"turn/model#1","step":1,"channel":"answer","offset":0,"text":"He"}`,
	`{"type":"message","seq":9,"path":"turn/model#1","step":1,"text":"Hello <you>","reason":"stop","calls":0,"usage":null,"attempts":1,"model":"m-1"}`,
	`{"type":"router_decided","seq":3,"path":"turn/router","router":"toolkits","toolkits":["files"],"tools":2,"fallback":"","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":3,"cost_usd":"0.000000003"}}`,
	`{"type":"tool_call_request","seq":4,"path":"turn/tool#1.1","step":1,"index":1,"id":"a","name":"f__read","server":"f","tool":"read","uri":"mcp://f/read@1.0.0","arguments":{"n":1},"args_digest":"sha256:00","effect":"read","destructive":false,"open_world":true,"facts":{}}`,
	`{"type":"approval_requested","seq":5,"path":"turn/tool#1.1","id":"a","gate":"G","rule":"r","policy_digest":"sha256:00","actions":["allow","deny","allow_all"],"expires_at":"2026-01-02T03:04:05Z"}`,
	`{"type":"approval_decided","seq":6,"path":"turn/tool#1.1","id":"a","decision":"allow","by":"policy","rule":"r","policy_digest":"sha256:00","gate":"","reason":""}`,
	`{"type":"tool_call_result","seq":8,"path":"turn/tool#1.1","id":"a","is_error":true,"class":"timeout","content":"too late","bytes":8,"ref":"sha256:00","duration_ms":30000,"untrusted":false}`,
	`{"type":"finish","seq":10,"path":"turn","reason":"stop","text":"Hello","output":null,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":0,"cost_usd":null},"steps":1,"tool_calls":0}`,
	`{"type":"error","seq":10,"path":"turn","code":"bound_exceeded","msg":"no more","which":"steps","usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":0,"cost_usd":"0.00"},"steps":1}`,
}

func TestEventsAreWrittenAndRead(t *testing.T) {
	for _, line := range someEvents {
		e, err := Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := string(flow.JSON(e)); got != line {
			t.Errorf("wrote\n%s, read\n%s", got, line)
		}
	}
}

func TestEveryTypeIsAKind(t *testing.T) {
	seen := map[Type]bool{}
	for _, line := range someEvents {
		e, err := Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		seen[e.Type()] = true
		kind := tipstaff.Kind(e.Type().Kind())
		journaled := e.Type() != TypeTextDelta && e.Type() != TypeApprovalRequested
		if tipstaff.KnownKind(kind) != journaled || kind.Transient() != (e.Type() == TypeTextDelta) {
			t.Errorf("%s: known %v, transient %v", kind, tipstaff.KnownKind(kind), kind.Transient())
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d types are tried, and there are 10", len(seen))
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	for _, c := range []struct {
		data    string
		unknown bool
	}{
		{`{"type":"mood_changed"}`, true}, {`{}`, true}, {`{"type":"finish","steps":"x"}`, false}, {`[]`, false}, {``, false},
	} {
		if _, err := Decode([]byte(c.data)); err == nil || errors.Is(err, ErrUnknownType) != c.unknown {
			t.Errorf("%s: %v", c.data, err)
		}
	}
	if e, err := Decode([]byte(`{"type":"message","text":"hi","worker":"claude"}`)); err != nil || e.Body.(*MessageDone).Text != "hi" {
		t.Errorf("fields that others add are not let go: %v", err)
	}
	if _, err := json.Marshal(Event{}); err == nil {
		t.Error("an event that says nothing was written")
	}
}

func FuzzDecode(f *testing.F) {
	for _, line := range someEvents {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			return
		}
		line := flow.JSON(e)
		again, err := Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(string(line), string(flow.JSON(again))); diff != "" {
			t.Fatalf("it is not the same the second time:\n%s", diff)
		}
		if !strings.HasPrefix(string(line), `{"type":"`+string(e.Type())+`"`) {
			t.Fatalf("the type does not come first: %s", line)
		}
	})
}

func TestViewOfGates(t *testing.T) {
	record := func(seq int64, kind, path, body string) flow.Record {
		return flow.Record{Seq: seq, Draft: flow.Draft{Kind: kind, Path: path, Body: json.RawMessage(body)}}
	}
	asked := record(1, "agent.tool_call_request", "turn/tool#1.1", `{"id":"a"}`)
	gate := record(2, "policy.gate", "turn/tool#1.1/approval", `{"gate":"G","gate_kind":"approval","subject":{"rule":"r","policy_digest":"d"},"actions":["allow"]}`)
	for name, c := range map[string]struct {
		records []flow.Record
		want    []string
	}{
		"a decision":                {[]flow.Record{asked, gate, record(3, "policy.gate.resolve", "turn/tool#1.1/approval", `{"gate":"G","action":"allow","via":"command"}`)}, []string{"tool_call_request", "approval_requested", "approval_decided"}},
		"closed at the end":         {[]flow.Record{asked, gate, record(3, "policy.gate.resolve", "turn/tool#1.1/approval", `{"gate":"G","action":"deny","via":"run_ended"}`)}, []string{"tool_call_request", "approval_requested"}},
		"decided when cancelled":    {[]flow.Record{asked, gate, record(3, "agent.approval_decided", "turn/tool#1.1", `{"id":"a"}`), record(4, "policy.gate.resolve", "turn/tool#1.1/approval", `{"gate":"G","action":"allow","via":"command"}`)}, []string{"tool_call_request", "approval_requested", "approval_decided"}},
		"cancelled when decided":    {[]flow.Record{asked, gate, record(3, "policy.gate.resolve", "turn/tool#1.1/approval", `{"gate":"G","action":"allow","via":"command"}`), record(4, "agent.approval_decided", "turn/tool#1.1", `{"id":"a"}`)}, []string{"tool_call_request", "approval_requested", "approval_decided"}},
		"a gate of somebody else":   {[]flow.Record{record(2, "policy.gate", "root/a/approval", `{"gate":"G","gate_kind":"approval"}`), record(3, "policy.gate.resolve", "root/a/approval", `{"gate":"G","action":"allow"}`)}, nil},
		"another kind of gate":      {[]flow.Record{asked, record(2, "policy.gate", "turn/tool#1.1/in_doubt", `{"gate":"G","gate_kind":"in_doubt"}`)}, []string{"tool_call_request"}},
		"another kind of record":    {[]flow.Record{record(1, "effect.finished", "turn/model#1", `{}`)}, nil},
		"something newer than this": {[]flow.Record{record(1, "agent.dreamt", "turn", `{}`), record(2, "policy.gate.resolve", "turn", `[]`)}, nil},
	} {
		var v View
		var got []string
		for _, r := range c.records {
			if e, ok := v.Event(r); ok {
				got = append(got, string(e.Type()))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
