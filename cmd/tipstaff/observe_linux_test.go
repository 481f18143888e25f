package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// observed is a workspace with a daemon and an MCP server.
type observed struct {
	*workspace
	site  *site
	plane *plane
}

func observe(t *testing.T) *observed {
	w := newWorkspace(t, manifest)
	w.endLaunched()
	p, err := w.plane(func(*cmdtest.Process) {})
	w.Check(err)
	return &observed{w, w.serves(), p}
}

func (o *observed) start(program string) string {
	o.Helper()
	answer, code, err := o.site.call("run_start", map[string]any{"program": program})
	if err != nil || code != "" {
		o.Fatalf("%s, %v", code, err)
	}
	var made struct{ Run string }
	o.Check(json.Unmarshal(answer, &made))
	return made.Run
}

// crowd has so many of each kind follow a run. They go away when gone is called, in the
// middle of whatever they are told; some never read a word.
func (o *observed) crowd(run string, each int) (gone func()) {
	o.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := grpc.NewClient(o.site.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	o.Check(err)
	core := pb.NewCoreServiceClient(conn)
	authorized := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+o.site.token)
	var there, left sync.WaitGroup
	for i := range each {
		deaf := i%2 == 0
		there.Add(3)
		left.Go(func() { // over HTTP
			r := o.site.request(ctx, http.MethodGet, "/runs/"+run+"/events", nil)
			r.Header.Set("Accept", "text/event-stream")
			res, err := http.DefaultClient.Do(r)
			there.Done()
			if err != nil {
				return
			}
			defer res.Body.Close()
			for lines := bufio.NewScanner(res.Body); !deaf && lines.Scan(); {
			}
			<-ctx.Done()
		})
		left.Go(func() { // gRPC
			stream, err := core.Watch(authorized, &pb.WatchRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_RunId{RunId: run}}, Follow: true})
			there.Done()
			for err == nil && !deaf {
				_, err = stream.Recv()
			}
			<-ctx.Done()
		})
		left.Go(func() { // and MCP
			there.Done()
			_, _, _ = callTool(ctx, o.plane.session, "run_watch", map[string]any{"run_id": run, "until": "end", "timeout_s": 600})
		})
	}
	there.Wait()
	return func() {
		cancel()
		left.Wait()
		o.Check(conn.Close())
	}
}

// Hundreds who follow a run, and vanish in its middle, do not slow it down and change
// nothing of what it does.
func TestObserversComeAndGo(t *testing.T) {
	t.Parallel()
	o := observe(t)
	var steps strings.Builder
	for i := range 40 {
		fmt.Fprintf(&steps, `{id: s%d, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 25ms}}, `, i)
	}
	plan := `{kind: plan, version: 1, root: {kind: sequential, children: [` + steps.String() + `]}}`
	run := func(with func(run string)) (kinds []string, took time.Duration) {
		id := o.start(plan)
		began := time.Now()
		with(id)
		// Another process takes a run that has not begun for one that nobody drives.
		o.Until("it has begun", func() bool {
			return slices.ContainsFunc(o.journal(id), func(r record) bool { return r.Kind == "run.started" })
		})
		if r := o.with(nil, 0, "watch", id, "--json"); r.Code != 0 {
			t.Fatal(r)
		}
		took = time.Since(began)
		for _, r := range o.journal(id) {
			kinds = append(kinds, r.Kind)
		}
		o.Must(0, "verify", id)
		return kinds, took
	}
	alone, before := run(func(string) {})
	crowded, after := run(func(id string) {
		gone := o.crowd(id, 100)
		o.Until("its middle", func() bool { return o.show(id).HeadSeq > int64(len(alone)/2) })
		gone()
	})
	if diff := cmp.Diff(alone, crowded); diff != "" {
		t.Errorf("with observers it does something else:\n%s", diff)
	}
	t.Logf("alone %v, with observers %v", before, after)
	if after > 2*before+5*time.Second {
		t.Errorf("alone it took %v, with observers %v", before, after)
	}
}

// dump is all that is stored: every row of every table, and every other file.
func (o *observed) dump() map[string]string {
	o.Helper()
	all := o.tree(".")
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, ".tipstaff/tipstaff.db") })
	store := o.openReadOnly()
	defer store.Close()
	tables, err := store.Query(`SELECT name FROM sqlite_master WHERE type = 'table'`)
	o.Check(err)
	var names []string
	for tables.Next() {
		var name string
		o.Check(tables.Scan(&name))
		names = append(names, name)
	}
	o.Check(tables.Close())
	for _, name := range names {
		rows, err := store.Query(`SELECT * FROM "` + name + `"`)
		o.Check(err)
		columns, err := rows.Columns()
		o.Check(err)
		for n := 0; rows.Next(); n++ {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			o.Check(rows.Scan(into...))
			all[fmt.Sprintf("%s %d", name, n)] = fmt.Sprint(values...)
		}
		o.Check(rows.Close())
	}
	return all
}

// Whatever is asked for that only looks, on any surface, changes no row and no file.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	o := observe(t)
	ended := o.start(`{kind: plan, version: 1, name: small, root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}}`)
	failed := o.start(`{kind: plan, version: 1, root: {id: bad, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "exit 3"]}}}`)
	detached, code, err := o.plane.call("run_start", map[string]any{"program": `{kind: plan, version: 1, root: {id: ok, kind: gate, question: Go?}}`})
	if err != nil || code != "" {
		t.Fatalf("%s, %v", code, err)
	}
	waits := runID(t, cmdtest.Result{Out: string(detached)})
	o.with(nil, 0, "watch", ended)
	o.Until("the other", func() bool { return o.show(failed).State != "executing" })
	o.Until("the process to have ended", func() bool {
		return o.show(waits).Status == "awaiting_decision" && len(o.executing()) == 0 && o.count(`SELECT count(*) FROM runs WHERE owner IS NULL`) == 3
	})
	o.Must(0, "ls") // whoever opens a store sees to its files
	gate := o.show(waits).OpenGates[0].ID
	digest := ""
	for _, r := range o.journal(ended) {
		if d := r.field("program_digest"); d != "" {
			digest = d
		}
	}
	before := o.dump()
	if len(before) < 50 {
		t.Fatalf("only %d rows and files were found", len(before))
	}

	routes := o.lookOverHTTP([]string{ended, failed, waits}, gate, digest)
	tools := o.lookByTools([]string{ended, failed, waits})
	for _, args := range [][]string{{"ls"}, {"ls", "--threads"}, {"decide"}, {"show", waits, "--gate", gate}, {"show", ended, "--metrics"}, {"show", failed, "--evidence"},
		{"show", failed, "--diagnose"}, {"show", ended, "--delivery"}, {"events", ended}, {"verify", ended}, {"doctor"}} {
		o.Run(append(args, "--json")...)
	}
	if routes < 20 || tools < 12 {
		t.Errorf("only %d routes and %d tools were looked at", routes, tools)
	}
	if diff := cmp.Diff(before, o.dump()); diff != "" {
		t.Errorf("looking has changed:\n%s", diff)
	}
}

// lookOverHTTP asks for everything that can be got, of every run, and tells of how many
// routes.
func (o *observed) lookOverHTTP(runs []string, gate, digest string) (n int) {
	o.Helper()
	var index struct {
		Routes []struct{ Method, Path string }
	}
	answer, _, err := o.site.do(o.site.request(context.Background(), http.MethodGet, "/", nil))
	o.Check(err)
	o.Check(json.Unmarshal(answer, &index))
	for _, route := range index.Routes {
		if route.Method != http.MethodGet {
			continue
		}
		n++
		for _, run := range runs {
			path := strings.NewReplacer("{run}", run, "{gate}", gate, "{seq}", "1", "{name}", url.PathEscape(digest)).Replace(route.Path)
			_, code, err := o.site.do(o.site.request(context.Background(), http.MethodGet, path, nil))
			if err != nil || code != "" && !slices.Contains([]string{"artifact_not_found", "gate_not_found", "run_ended"}, code) {
				o.Errorf("GET %s: %s, %v", path, code, err)
			}
			if strings.HasSuffix(path, "/events") && run != runs[2] { // as a stream, of what has ended
				r := o.site.request(context.Background(), http.MethodGet, path, nil)
				r.Header.Set("Accept", "text/event-stream")
				if _, code, err := o.site.do(r); err != nil || code != "" {
					o.Errorf("stream of %s: %s, %v", path, code, err)
				}
			}
		}
	}
	return n
}

// lookByTools calls every tool that says it only looks, and reads every resource.
func (o *observed) lookByTools(runs []string) (n int) {
	o.Helper()
	ctx := context.Background()
	tools, err := o.plane.session.ListTools(ctx, nil)
	o.Check(err)
	for _, tool := range tools.Tools {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		n++
		for _, run := range runs {
			args := map[string]any{"run_id": run}
			switch tool.Name {
			case "run_watch":
				args["timeout_s"] = 1
			case "plan_validate":
				args = map[string]any{"program": hang}
			case "run_history", "pending_decisions":
				args = map[string]any{}
			}
			if _, code, err := callTool(ctx, o.plane.session, tool.Name, args); err != nil || code != "" {
				o.Errorf("%s: %s, %v", tool.Name, code, err)
			}
		}
	}
	for _, run := range runs {
		for _, uri := range []string{"tipstaff://runs", "tipstaff://runs/" + run, "tipstaff://runs/" + run + "/evidence", "tipstaff://runs/" + run + "/events",
			"tipstaff://runs/" + run + "/journal", "tipstaff://runs/" + run + "/diff", "tipstaff://docs/getting-started"} {
			if _, err := o.plane.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri}); err != nil && !strings.HasSuffix(uri, "/diff") {
				o.Errorf("%s: %v", uri, err)
			}
		}
	}
	return n
}
