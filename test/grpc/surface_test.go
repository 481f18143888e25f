package grpc

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/rpc"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// view is what a surface tells of a run that asks: each projection of it, in the words that
// all surfaces share.
type view struct {
	Status  map[string]any
	History tipstaff.HistoryRun
	Threads []string
	Pending []map[string]any
	Shown   string // the bytes of what people see of its gate
	// More are the projections that gRPC does not have, by name. nil: the surface is gRPC.
	More map[string]any
}

// surfaces are those that a daemon can be asked on. All tell the same.
var surfaces = map[string]func(*daemon, string) view{
	"command line":             func(d *daemon, run string) view { return d.byCommand(run) },
	"command line at a server": func(d *daemon, run string) view { return d.byCommand(run, "--server", d.addr) },
	"gRPC":                     byCore,
	"HTTP":                     byHTTP,
	"MCP":                      byMCP,
}

// bigData is how many bytes a stage asks about: almost a megabyte, the most that a document
// may have, or what is still shown in part, for a daemon under the race detector reads it slowly.
func bigData() int {
	if testing.Short() {
		return 128 << 10
	}
	return 1<<20 - 1024
}

// asked has a stage ask about much beside something short.
func asked(t *testing.T) (*daemon, *pb.Envelope) {
	dir := t.TempDir()
	big := strings.Repeat("x", bigData())
	text := `{"name":"asks","agents":[{"name":"ask","default_next":"end","routing_rules":[{"when":"response != null","target":"end"}],"scripted":{"answers":[{"output":{},"control":{"interrupt":{"kind":"confirmation","question":"Shall I?","data":{"big":"` +
		big + `","path":"/etc/shadow"}}}},{"output":{"asked":true}}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "loop.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir}
	d.start()
	t.Cleanup(d.end)
	c := d.client(d.addr)
	env := c.create("loop")
	if err := c.execute(c.ctx(), env).rest(); err != nil {
		t.Fatal(err)
	}
	return d, env
}

func TestEverySurfaceTellsTheSame(t *testing.T) {
	d, env := asked(t)
	want := byCore(d, env.RunId)
	more := byMCP(d, env.RunId).More
	if len(more) != 6 {
		t.Errorf("MCP has %d more projections", len(more))
	}
	for name, tell := range surfaces {
		got := tell(d, env.RunId)
		if got.More != nil {
			if diff := cmp.Diff(more, got.More); diff != "" {
				t.Errorf("%s (-MCP +this):\n%s", name, diff)
			}
			got.More = nil
		}
		if name == "MCP" { // whose clients have the daemon drive its own runs
			if got.Pending[0]["control"] != tipstaff.Controllable || got.History.Control != tipstaff.Controllable {
				t.Errorf("an MCP client of the daemon may not drive the daemon's runs: %+v", got)
			}
			got.Pending[0]["control"], got.History.Control = tipstaff.InspectAlone, tipstaff.InspectAlone
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-gRPC +this):\n%s", name, diff)
		}
	}
	if want.Status["status"] != tipstaff.StatusAwaitingDecision || len(want.Pending) != 1 || len(want.Threads) != 1 {
		t.Errorf("%+v", want)
	}
	if len(want.Shown) > 16<<10 || !strings.Contains(want.Shown, "/etc/shadow") || !strings.Contains(want.Shown, `"whole":false`) {
		t.Errorf("%d bytes beside a path are shown as %d: %.300s", bigData(), len(want.Shown), want.Shown)
	}
	// The whole is at hand, and the same decision again has the same bytes, also by its key
	// and after the end.
	whole := d.lines("show", env.RunId, "--gate", "ask#1/confirmation", "--json")
	if len(whole) != 1 || len(whole[0]) < bigData() || !strings.Contains(string(whole[0]), `"whole":true`) {
		t.Errorf("the whole gate has %d lines", len(whole))
	}
	key := want.Pending[0]["key"].(string)
	first := d.lines("decide", env.RunId, key, "approve", "--resume", "--json")
	if out, err := d.run("show", env.RunId); err != nil || !strings.Contains(out, "completed") {
		t.Errorf("%v: %s", err, out)
	}
	again := d.lines("decide", env.RunId, key, "approve", "--json")
	if len(first) < 2 || len(again) != 1 || string(first[0]) != string(again[0]) {
		t.Errorf("decided %s\nand again %s", first, again)
	}
	if out, err := d.run("watch", env.RunId, "--until", "end"); err != nil || !strings.HasPrefix(out, "end  completed") {
		t.Errorf("%v: %s", err, out)
	}
}

// lines are what a command prints with --json, one value a line. Exit code 4 is that of a
// run that waits.
func (d *daemon) lines(args ...string) (lines []json.RawMessage) {
	d.t.Helper()
	command, err := cmdtest.Released() // it is the daemon that does things at the same time
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(command, append(args, "--workspace", d.dir)...)
	if args[len(args)-2] == "--server" {
		cmd = exec.Command(command, args...)
		cmd.Env = append(os.Environ(), "TIPSTAFF_TOKEN="+d.token)
	}
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 4 {
		d.t.Fatalf("tipstaff %v: %v %s", args, err, err.(*exec.ExitError).Stderr)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var line json.RawMessage
		if dec.Decode(&line) != nil {
			return lines
		}
		lines = append(lines, line)
	}
}

func into[T any](d *daemon, raw []byte) (v T) {
	d.t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		d.t.Fatal(err)
	}
	return v
}

func (d *daemon) byCommand(run string, server ...string) (v view) {
	ask := func(args ...string) []json.RawMessage { return d.lines(append(append(args, "--json"), server...)...) }
	got := into[tipstaff.Run](d, ask("show", run)[0])
	v.Status = map[string]any{"run_id": got.ID.String(), "state": string(got.State), "condition": string(got.Condition), "head_seq": got.HeadSeq, "status": got.Status}
	v.History = tipstaff.HistoryOf(into[tipstaff.Run](d, ask("ls", "--thread", got.Pipeline.Thread)[0]))
	for _, line := range ask("ls", "--threads") {
		t := into[tipstaff.Thread](d, line)
		v.Threads = append(v.Threads, fmt.Sprint(t.ID, " ", t.Runs, " ", t.Head.ID, " ", t.Head.Status))
	}
	v.More = map[string]any{}
	for name, args := range map[string][]string{"diagnose": {"--diagnose"}, "metrics": {"--metrics"}, "evidence": {"--evidence", "all"}, "delivery": {"--delivery"}, "diff": {"--diff", "--stat"}} {
		v.More[name] = settled(into[any](d, ask(append([]string{"show", run}, args...)...)[0]))
	}
	for _, line := range ask("events", run) {
		e := into[tipstaff.TailEvent](d, line)
		v.More["events"] = fmt.Sprint(v.More["events"], e.Seq, e.Kind, " ")
	}
	for _, line := range ask("decide") {
		p := into[tipstaff.PendingDecision](d, line)
		v.Pending = append(v.Pending, pending(p.Run.String(), p.Title, p.Status, p.Control, p.Gate.ID.String(), p.Gate.Key, string(p.Gate.Kind), p.Gate.Question, p.Gate.Actions))
		v.Shown = shownBytes(d, *p.Gate.Shown)
	}
	return v
}

// settled is a value without what depends on when and from where it is asked for.
func settled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"wall_s", "active_s", "waiting_s", "waited_s", "control", "control_reason", "next", "run_id"} {
			delete(v, name)
		}
		for _, member := range v {
			settled(member)
		}
	case []any:
		for _, item := range v {
			settled(item)
		}
	}
	return v
}

// byAnswers is the view of a surface that answers with values of [tipstaff.Control].
func byAnswers(d *daemon, run string, ask func(projection string, args map[string]any) []byte, threads func() tipstaff.ThreadPage) (v view) {
	of := map[string]any{"run_id": run}
	got := into[tipstaff.RunStatus](d, ask("status", of))
	v.Status = map[string]any{"run_id": got.ID.String(), "state": string(got.State), "condition": string(got.Condition), "head_seq": got.HeadSeq, "status": got.Status}
	v.History = into[tipstaff.RunHistory](d, ask("history", map[string]any{"thread_id": got.Pipeline.Thread})).Runs[0]
	for _, t := range threads().Threads {
		v.Threads = append(v.Threads, fmt.Sprint(t.ID, " ", t.Runs, " ", t.Head.ID, " ", t.Head.Status))
	}
	for _, p := range into[tipstaff.PendingDecisions](d, ask("pending", nil)).Decisions {
		v.Pending = append(v.Pending, pending(p.Run.String(), p.Title, p.Status, p.Control, p.Gate.ID.String(), p.Gate.Key, string(p.Gate.Kind), p.Gate.Question, p.Gate.Actions))
		v.Shown = shownBytes(d, *p.Gate.Shown)
	}
	v.More = map[string]any{}
	for _, name := range []string{"diagnose", "metrics", "evidence", "delivery", "diff"} {
		v.More[name] = settled(into[any](d, ask(name, of)))
	}
	for _, e := range into[tipstaff.Tail](d, ask("events", of)).Events {
		v.More["events"] = fmt.Sprint(v.More["events"], e.Seq, e.Kind, " ")
	}
	return v
}

func byHTTP(d *daemon, run string) view {
	get := func(path string) []byte {
		req, err := http.NewRequest("GET", "http://"+d.site+path, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			d.t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			d.t.Fatalf("GET %s: %s %v %.300s", path, res.Status, err, body)
		}
		return body
	}
	return byAnswers(d, run, func(projection string, args map[string]any) []byte {
		switch projection {
		case "history":
			page := into[map[string]any](d, get(fmt.Sprint("/runs?thread=", args["thread_id"])))
			text, _ := json.Marshal(map[string]any{"runs": page["items"]}) // what was JSON can be again
			return text
		case "pending":
			return get("/pending")
		}
		return get("/runs/" + run + "/" + projection)
	}, func() tipstaff.ThreadPage { return into[tipstaff.ThreadPage](d, get("/threads")) })
}

func byMCP(d *daemon, run string) view {
	ctx := d.t.Context()
	client := mcp.NewClient(&mcp.Implementation{Name: "surfaces", Version: "1"}, nil)
	bearer := &http.Client{Transport: withToken(d.token)}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + d.site + "/mcp", HTTPClient: bearer}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer session.Close()
	tools := map[string]string{"status": "run_status", "history": "run_history", "pending": "pending_decisions", "diagnose": "run_diagnose", "metrics": "run_metrics",
		"evidence": "run_evidence", "delivery": "delivery_gate", "diff": "run_diff", "events": "run_events_tail"}
	return byAnswers(d, run, func(projection string, args map[string]any) []byte {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tools[projection], Arguments: args})
		if err != nil || res.IsError {
			d.t.Fatalf("%s: %v, %+v", projection, err, res)
		}
		text, err := json.Marshal(res.StructuredContent)
		if err != nil {
			d.t.Fatal(err)
		}
		return text
	}, func() tipstaff.ThreadPage { // which are in the history
		page, err := remote(d).Threads(d.t.Context(), tipstaff.ThreadsRequest{})
		if err != nil {
			d.t.Fatal(err)
		}
		return page
	})
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// remote is the Service of the daemon.
func remote(d *daemon) *rpc.Client {
	c, err := rpc.Dial(d.addr, rpc.ClientOptions{Token: d.token})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

func byCore(d *daemon, run string) (v view) {
	c := d.client(d.addr)
	env, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_RunId{RunId: run}}})
	if err != nil {
		d.t.Fatal(err)
	}
	runs, err := c.ListRuns(c.ctx(), &pb.ListRunsRequest{ThreadId: env.ThreadId})
	if err != nil || runs.Total != 1 || len(runs.Runs) != 1 {
		d.t.Fatalf("%v, %v", runs, err)
	}
	r := runs.Runs[0]
	v.Status = map[string]any{"run_id": env.RunId, "state": env.State, "condition": env.GetCondition(), "head_seq": env.LastSeq, "status": r.Status}
	id, _ := tipstaff.ParseID(r.RunId)
	v.History = tipstaff.HistoryRun{Run: id, Title: r.Title, Status: r.Status, Control: r.Control, Created: r.CreatedAt.AsTime(), Tokens: r.Tokens, CostUSD: tipstaff.USD(r.CostUsd), Thread: r.ThreadId, Session: r.SessionId}
	if r.EndedAt != nil {
		v.History.Ended = r.EndedAt.AsTime()
	}
	threads, err := c.ListThreads(c.ctx(), &pb.ListThreadsRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, t := range threads.Threads {
		v.Threads = append(v.Threads, fmt.Sprint(t.ThreadId, " ", t.Runs, " ", t.Head.RunId, " ", t.Head.Status))
	}
	waits, err := c.ListInterrupts(c.ctx(), &pb.ListInterruptsRequest{})
	if err != nil || int(waits.Total) != len(waits.Interrupts) || waits.ByKind["confirmation"] != waits.Total {
		d.t.Fatalf("%v, %v", waits.Total, err)
	}
	for _, p := range waits.Interrupts {
		i := p.Interrupt
		v.Pending = append(v.Pending, pending(p.RunId, p.Title, p.Status, p.Control, i.Id, i.Key, i.Kind, i.Question, i.Actions))
		shown := tipstaff.Shown{Lines: i.Shown.Lines, Whole: i.Shown.Whole}
		for _, part := range i.Shown.Parts {
			shown.Parts = append(shown.Parts, tipstaff.ShownPart{Name: part.Name, Text: part.Text, Bytes: int(part.Bytes), Cut: int(part.Cut)})
		}
		v.Shown = shownBytes(d, shown)
	}
	return v
}

func pending(run, title, status, control, gate, key, kind, question string, actions []string) map[string]any {
	return map[string]any{"run_id": run, "title": title, "status": status, "control": control, "gate_id": gate, "key": key, "kind": kind, "question": question, "actions": actions}
}

func shownBytes(d *daemon, s tipstaff.Shown) string {
	raw, err := json.Marshal(s)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}
