package grpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// grpcurl knows of the daemon only what that tells by reflection.
func TestGrpcurl(t *testing.T) {
	t.Parallel()
	program := installed(t, "bin", "grpcurl")
	d := serve(t)
	call := func(args ...string) (string, error) {
		out, err := exec.Command(program, append([]string{"-plaintext", "-H", "authorization: " + d.authorization()}, args...)...).CombinedOutput()
		return string(out), err
	}
	must := func(t *testing.T, args ...string) string {
		t.Helper()
		out, err := call(args...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out
	}
	t.Run("list", func(t *testing.T) {
		out := must(t, d.addr, "list")
		for _, service := range []string{"tipstaff.core.v1.CoreService", "grpc.health.v1.Health"} {
			if !strings.Contains(out, service+"\n") {
				t.Errorf("%s is not listed:\n%s", service, out)
			}
		}
		if out := must(t, d.addr, "list", "tipstaff.core.v1.CoreService"); strings.Count(out, "\n") != 17 {
			t.Errorf("the service has other calls:\n%s", out)
		}
	})
	t.Run("describe", func(t *testing.T) {
		out := must(t, d.addr, "describe", "tipstaff.core.v1.Envelope")
		for _, field := range []string{"string envelope_id = 1;", "map<string, bytes> outputs = 14;", "int64 version = 15;"} {
			if !strings.Contains(out, field) {
				t.Errorf("%s is not told:\n%s", field, out)
			}
		}
	})
	t.Run("from a draft to its end", func(t *testing.T) {
		var env struct{ EnvelopeID, UserID, State string }
		decodeJSON(t, must(t, "-d", `{"raw_input": "hello"}`, d.addr, "tipstaff.core.v1.CoreService/CreateEnvelope"), &env)
		if !strings.HasPrefix(env.EnvelopeID, "env_") || env.State != "drafting" || env.UserID != "local" {
			t.Fatalf("the draft is %+v", env)
		}
		out := must(t, "-d", `{"envelope": {"envelope_id": "`+env.EnvelopeID+`"}}`, d.addr, "tipstaff.core.v1.CoreService/ExecutePipeline")
		var last struct {
			Type     string
			Final    bool
			Envelope struct {
				TerminalReason string
				Outputs        map[string][]byte
			}
		}
		events := 0
		for stream := json.NewDecoder(strings.NewReader(out)); ; events++ {
			if err := stream.Decode(&last); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
		}
		if events < 10 || !last.Final || last.Type != "PIPELINE_COMPLETED" || last.Envelope.TerminalReason != "completed" ||
			string(last.Envelope.Outputs["intent"]) != `{"task":"say it"}` {
			t.Errorf("%d events, the last: %+v", events, last)
		}
	})
	t.Run("lists, by pages", func(t *testing.T) {
		const service = "tipstaff.core.v1.CoreService/"
		type page struct {
			Runs    []struct{ RunID, Status, ThreadID string }
			Threads []struct {
				ThreadID string
				Runs     int
				Head     struct{ RunID string }
			}
			Interrupts []struct {
				RunID     string
				Interrupt struct {
					ID, Kind, Question string
					Shown              struct{ Lines []string }
				}
			}
			NextPageToken string
			Total         int
			ByKind        map[string]int
		}
		ask := func(method, request string) (p page) {
			t.Helper()
			decodeJSON(t, must(t, "-d", request, d.addr, service+method), &p)
			return p
		}
		before := ask("ListRuns", `{"page_size": 200}`).Total
		for range 3 {
			must(t, "-d", `{"envelope": {"raw_input": "hello"}, "config": {"name": "asking"}}`, d.addr, service+"ExecutePipeline")
		}
		var seen []string
		for token := ""; ; {
			p := ask("ListInterrupts", `{"page_size": 2, "page_token": "`+token+`"}`)
			if p.Total != 3 || p.ByKind["confirmation"] != 3 {
				t.Fatalf("what waits is %+v", p)
			}
			for _, i := range p.Interrupts {
				if seen = append(seen, i.Interrupt.ID); i.Interrupt.Question != "Shall it?" || len(i.Interrupt.Shown.Lines) == 0 {
					t.Errorf("an interrupt is %+v", i)
				}
			}
			if token = p.NextPageToken; token == "" {
				break
			}
		}
		if slices.Sort(seen); len(slices.Compact(seen)) != 3 {
			t.Errorf("the interrupts by pages are %q", seen)
		}
		if p := ask("ListRuns", `{"page_size": 1, "status": ["awaiting_decision"]}`); len(p.Runs) != 1 || p.Total != 3 || p.NextPageToken == "" {
			t.Errorf("the first run that waits is %+v", p)
		}
		if p := ask("ListRuns", `{}`); p.Total != before+3 || len(p.Runs) != p.Total || p.NextPageToken != "" {
			t.Errorf("all runs are %+v, and were %d", p, before)
		}
		if p := ask("ListThreads", `{"page_size": 1}`); len(p.Threads) != 1 || p.Threads[0].Runs < 1 || p.Threads[0].Head.RunID == "" {
			t.Errorf("the thread that changed last is %+v", p)
		}
		for _, wrong := range []string{`{"page_size": 201}`, `{"page_size": -1}`, `{"page_token": "x"}`} {
			if out, err := call("-d", wrong, d.addr, service+"ListRuns"); err == nil || !strings.Contains(out, "Code: InvalidArgument") {
				t.Errorf("%s: %v %s", wrong, err, out)
			}
		}
	})
	t.Run("what is wrong with a document", func(t *testing.T) {
		out, err := call("-d", `{"pipeline": {"document": "bmFtZTogcAphZ2VudHM6IFt7bmFtZTogYX1dCg=="}}`, d.addr, "tipstaff.core.v1.CoreService/CreateEnvelope")
		if err == nil {
			t.Fatalf("it was taken:\n%s", out)
		}
		for _, part := range []string{"Code: InvalidArgument", "google.rpc.ErrorInfo", `"domain": "tipstaff"`, "google.rpc.BadRequest", `"reason": "no_way_to_run"`, "2:10"} {
			if !strings.Contains(out, part) {
				t.Errorf("%s is not told:\n%s", part, out)
			}
		}
	})
	t.Run("many faults, and a long one", func(t *testing.T) {
		many := "name: p\nagents:\n" // one fault in each, and that there are so many
		for i := range 5000 {
			many += fmt.Sprintf("  - {name: a%d, remote: {}, wrong%d: 1}\n", i, i)
		}
		long := "name: p\nagents: [{name: a, scripted: {answers: [{output: {}}]}, " + strings.Repeat("k", 100_000) + ": 1}]\n"
		for document, want := range map[string]string{many: "more: 4981 more problems are not shown", long: "field_unknown"} {
			request, err := json.Marshal(map[string]any{"raw_input": "x", "pipeline": map[string]any{"document": []byte(document)}})
			if err != nil {
				t.Fatal(err)
			}
			grpcurl := exec.Command(program, "-plaintext", "-H", "authorization: "+d.authorization(), "-d", "@", d.addr, "tipstaff.core.v1.CoreService/CreateEnvelope")
			grpcurl.Stdin = bytes.NewReader(request)
			out, err := grpcurl.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "Code: InvalidArgument") || !strings.Contains(string(out), want) || strings.Contains(string(out), strings.Repeat("k", 101)) {
				t.Errorf("%v: %.3000s", err, out)
			}
		}
	})
	t.Run("nothing without a token", func(t *testing.T) {
		out, err := exec.Command(program, "-plaintext", d.addr, "list").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "bearer token") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// decodeJSON reads what a program printed.
func decodeJSON(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}
