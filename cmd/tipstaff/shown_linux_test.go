package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// gatesOf makes a run that waits at a gate, for each kind.
var gatesOf = map[tipstaff.GateKind]func(asker) tipstaff.ID{
	tipstaff.Question: parks("question.yaml"), tipstaff.Approval: parks("approval.yaml"), tipstaff.Clarification: parks("clarification.yaml"),
	tipstaff.Confirmation: parks("confirmation.yaml"), tipstaff.InDoubt: asker.doubted, tipstaff.Bound: parks("bound.yaml"),
	tipstaff.Handoff: parks("handoff.yaml"), tipstaff.Delivery: parks("delivery.yaml"),
}

// shownIn are the bytes of what is shown of gates, by gate, wherever they stand in texts of
// JSON.
func shownIn(texts ...[]byte) map[string]string {
	all := map[string]string{}
	for _, text := range texts {
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var value json.RawMessage
			if d.Decode(&value) != nil {
				break
			}
			findShown(value, all)
		}
	}
	return all
}

func findShown(value json.RawMessage, all map[string]string) {
	var members map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(value, &items) == nil {
		for _, item := range items {
			findShown(item, all)
		}
		return
	}
	if json.Unmarshal(value, &members) != nil {
		return
	}
	var gate string
	if json.Unmarshal(members["gate_id"], &gate) == nil && members["shown"] != nil {
		all[gate] = string(members["shown"])
		return
	}
	for _, member := range members {
		findShown(member, all)
	}
}

// A gate of each kind is shown on every surface, with the same bytes.
func TestGatesOfEveryKindAreShownAlike(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, conditions, long)
	w.git()
	w.Env = append(w.Env, "XDG_STATE_HOME="+w.Path("state"))
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28", "--decide")}
	runs, gates := map[string]tipstaff.ID{}, map[string]tipstaff.GateKind{}
	for kind, make := range gatesOf {
		run := make(a)
		g := w.show(run.String()).OpenGates[0]
		if g.Kind != string(kind) {
			t.Errorf("the gate of %s is a %s", kind, g.Kind)
		}
		runs[g.ID], gates[g.ID] = run, kind
	}
	site := w.serves()
	w.Env = append(w.Env, "TIPSTAFF_TOKEN="+site.token)
	want := shownIn([]byte(w.Must(0, "decide", "--json").Out))
	if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, slices.Sorted(maps.Keys(gates))) {
		t.Fatalf("shown are %v, the gates are %v", got, gates)
	}
	for gate, text := range want {
		var shown tipstaff.Shown
		w.Check(json.Unmarshal([]byte(text), &shown))
		if len(shown.Lines) == 0 || !shown.Whole {
			t.Errorf("of a %s is shown %s", gates[gate], text)
		}
	}
	for surface, got := range map[string]map[string]string{
		"the command line at a server": shownIn([]byte(w.Must(0, "decide", "--json", "--server", site.grpc).Out)),
		"show":                         a.eachGate(runs, func(run, _ string) []byte { return []byte(w.Must(0, "show", run, "--json").Out) }),
		"show --gate":                  a.eachGate(runs, func(run, gate string) []byte { return []byte(w.Must(0, "show", run, "--gate", gate, "--json").Out) }),
		"HTTP":                         shownIn(site.get("/pending")),
		"HTTP, of a gate":              a.eachGate(runs, func(run, gate string) []byte { return site.get("/runs/" + run + "/gates/" + gate) }),
		"gRPC":                         site.interrupts(),
		"MCP":                          shownIn(a.text("pending_decisions", nil)),
		"MCP, of a run":                a.eachGate(runs, func(run, _ string) []byte { return a.text("run_status", map[string]any{"run_id": run}) }),
		"MCP, watching": a.eachGate(runs, func(run, _ string) []byte {
			return a.text("run_watch", map[string]any{"run_id": run, "summary": false})
		}),
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-the command line +this):\n%s", surface, diff)
		}
	}
	var pending tipstaff.PendingDecisions
	w.Check(json.Unmarshal(a.text("pending_decisions", nil), &pending))
	if pending.Total != len(gatesOf) || len(pending.ByKind) != len(gatesOf) {
		t.Errorf("%d gates are pending, by kind %v", pending.Total, pending.ByKind)
	}
}

// eachGate is what is shown of gates, one by one.
func (a asker) eachGate(runs map[string]tipstaff.ID, ask func(run, gate string) []byte) map[string]string {
	all := map[string]string{}
	for gate, run := range runs {
		maps.Copy(all, shownIn(ask(run.String(), gate)))
	}
	return all
}

// text is the answer of a tool as it was sent.
func (a asker) text(tool string, args map[string]any) []byte {
	a.Helper()
	res, err := a.tools.CallTool(a.tools.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	a.Check(err)
	return []byte(res.Content[0].(*mcp.TextContent).Text)
}

func (s *site) get(path string) []byte {
	s.Folder.Helper()
	answer, code, err := s.do(s.request(context.Background(), http.MethodGet, path, nil))
	if err != nil || code != "" {
		s.Folder.Fatalf("GET %s: %s, %v", path, code, err)
	}
	return answer
}

// interrupts are what gRPC shows, written as JSON.
func (s *site) interrupts() map[string]string {
	s.Folder.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.Folder.Check(err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+s.token)
	list, err := pb.NewCoreServiceClient(conn).ListInterrupts(ctx, &pb.ListInterruptsRequest{})
	s.Folder.Check(err)
	all := map[string]string{}
	for _, p := range list.Interrupts {
		shown := tipstaff.Shown{Lines: p.Interrupt.Shown.Lines, Whole: p.Interrupt.Shown.Whole}
		for _, part := range p.Interrupt.Shown.Parts {
			shown.Parts = append(shown.Parts, tipstaff.ShownPart{Name: part.Name, Text: part.Text, Bytes: int(part.Bytes), Cut: int(part.Cut)})
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		s.Folder.Check(e.Encode(shown))
		all[p.Interrupt.Id] = string(bytes.TrimSpace(text.Bytes()))
	}
	return all
}
