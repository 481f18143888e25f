package page_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// mixed is a plan that asks a model, writes and fails to read.
const mixed = `{kind: plan, version: 1, name: mixed, root: {kind: sequential, children: [
  {id: say, kind: step, prompt: Greet.},
  {id: write, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: a.txt, content: "a hedgehog"}},
  {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: nowhere.txt}}]}}`

// mixedRun is a bed in which that plan was run by alice.
func mixedRun(t *testing.T) (*bed, tipstaff.Run, []tipstaff.Event) {
	t.Helper()
	b := newBed(t)
	b.Says = func(context.Context, agent.Request) (string, error) { return "Hello. \u202e<b>", nil }
	run := b.start("alice", mixed)
	var all []tipstaff.Event
	for e, err := range b.Runner.Events(b.as("alice"), tipstaff.EventsRequest{Run: run.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return b, run, all
}

// keys are the records that a journal shows.
func (p page) keys() (all []string) {
	for _, n := range p.all("tr") {
		if key := attr(n, "data-key"); key != "" {
			all = append(all, key)
		}
	}
	return all
}

func TestJournalShowsWhatIsRecorded(t *testing.T) {
	b, run, events := mixedRun(t)
	w := b.browser("alice")
	base := "/ui/runs/" + run.ID.String() + "/journal"
	which := func(fits func(tipstaff.Event) bool) (all []string) {
		for _, e := range events {
			if fits(e) {
				all = append(all, strconv.FormatInt(e.Seq, 10))
			}
		}
		return all
	}
	for ask, fits := range map[string]func(tipstaff.Event) bool{
		"":                       func(tipstaff.Event) bool { return true },
		"?kind=agents":           func(e tipstaff.Event) bool { return strings.HasPrefix(string(e.Kind), "agent.") },
		"?kind=plan.step":        func(e tipstaff.Event) bool { return e.Kind == tipstaff.KindPlanStep },
		"?kind=ownership":        func(e tipstaff.Event) bool { return e.Kind == tipstaff.KindRunStarted },
		"?path=root/write":       func(e tipstaff.Event) bool { return strings.HasPrefix(e.Path, "root/write") },
		"?path=write":            func(tipstaff.Event) bool { return false },
		"?q=hedgehog":            func(e tipstaff.Event) bool { return bytes.Contains(e.Raw, []byte("hedgehog")) },
		"?q=hedgehog&kind=gates": func(tipstaff.Event) bool { return false },
		"?failed=1&path=root/look": func(e tipstaff.Event) bool {
			return e.Path == "root/look" && bytes.Contains(e.Raw, []byte(`"error"`))
		},
	} {
		p, want := w.open(base+ask), which(fits)
		if got := p.keys(); !slices.Equal(got, want) {
			t.Errorf("%q shows %v, want %v", ask, got, want)
		}
		if said := strconv.Itoa(len(want)) + " found"; ask != "" && !strings.Contains(p.text(), said) {
			t.Errorf("%q does not say %q", ask, said)
		}
	}
	if len(which(func(e tipstaff.Event) bool { return bytes.Contains(e.Raw, []byte("hedgehog")) })) == 0 {
		t.Error("nothing tells of a hedgehog")
	}
	for _, e := range events {
		path := base + "/" + strconv.FormatInt(e.Seq, 10)
		p := w.open(path)
		var shown strings.Builder
		for n := range p.id("bytes").Descendants() {
			if n.Type == html.TextNode {
				shown.WriteString(n.Data)
			}
		}
		if shown.String() != tipstaff.Printable(string(e.Raw)) {
			t.Errorf("record %d is shown as %s", e.Seq, shown.String())
		}
		if raw := w.open(path + "?raw=1"); raw.body != string(e.Raw) || !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment;") {
			t.Errorf("record %d is handed out as %s", e.Seq, raw.body)
		}
		if text := p.text(); !strings.Contains(text, e.Hash.String()) || !strings.Contains(text, "Fits: ") {
			t.Errorf("record %d does not show that its hash fits: %s", e.Seq, text)
		}
	}
	if last := events[len(events)-1].Hash.String(); last != run.Head {
		t.Errorf("the last hash is %s, the head %s", last, run.Head)
	}
	for _, path := range []string{"/0", "/x", "/99999", "?kind=nothing", "?after=-1"} {
		if p := w.get(base + path); p.status < 400 || p.status >= 500 {
			t.Errorf("%s is answered %d", path, p.status)
		}
	}
}

// cells are the texts of the cells of a row.
func cells(tr *html.Node) (all []string) {
	for _, n := range elements(tr, func(n *html.Node) bool { return n.Data == "td" }) {
		all = append(all, textOf(n))
	}
	return all
}

// costly is a plan that asks a model whose price nobody knows, tries a call twice, and has
// another run do a part.
const costly = `{kind: plan, version: 1, name: costly, root: {kind: sequential, children: [
  {id: say, kind: step, prompt: Greet.},
  {id: part, kind: sub_dispatch, skill: "skill://look@1.0.0", accept: auto},
  {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: nowhere.txt}, retry: {max: 1, backoff: 1ms, on: [tool_error]}}]}}`

func TestCostRowsAddUp(t *testing.T) {
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+"policy: {sub_dispatch: true, rules: [{id: all, tool: \"*/*\", do: allow}]}\n")
		b.Write("skills/look/skill.yaml", "id: look\nversion: 1.0.0\nverbs: [find]\ntools: [mcp://builtin/read_file@1.0.0]\nsub_skills: none\n")
		b.Write("skills/look/SKILL.md", "---\nname: look\ndescription: Looks.\n---\nLook.\n")
		b.Write("skills/look/plan.yaml", "kind: plan\nversion: 1\nskill: skill://look@1.0.0\nroot: {id: q, kind: tool_call, tool: mcp://builtin/read_file@1.0.0, args: {path: note.txt}}\n")
	})
	b.Says = func(context.Context, agent.Request) (string, error) { return "Hello.", nil }
	run := b.start("alice", costly)
	m, err := b.Control().Metrics(b.as("alice"), tipstaff.RunRequest{Run: run.ID})
	if err != nil {
		t.Fatal(err)
	}
	if m.ModelCalls == 0 || m.ToolCalls < 3 || m.Retries == 0 || m.Exact {
		t.Fatalf("the run shows too little: %s %+v %+v %+v", run.Status, run.OpenGates, m.Metric, run.Error)
	}
	p := b.browser("alice").open("/ui/runs/" + run.ID.String() + "/cost")
	want := []int64{m.ModelCalls, m.ToolCalls, m.Invocations, m.Retries, m.TokensIn, m.TokensCached, m.TokensOut}
	tables := p.all("table")
	if len(tables) != 2 {
		t.Fatalf("there are %d tables", len(tables))
	}
	for _, table := range tables {
		sums, unknown := make([]int64, len(want)), false
		for _, tr := range elements(table, func(n *html.Node) bool { return n.Data == "tr" && attr(n, "class") == "whole" }) {
			row := cells(tr)
			for i := range sums {
				n, err := strconv.ParseInt(strings.ReplaceAll(row[i], ",", ""), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sums[i] += n
			}
			unknown = unknown || row[len(want)] == "unknown"
		}
		foot := elements(table, func(n *html.Node) bool { return n.Data == "tfoot" })[0]
		if total := cells(foot); !slices.Equal(sums, want) || !unknown || !strings.HasPrefix(total[len(want)], "≥ $") || total[0] != strconv.FormatInt(m.ModelCalls, 10) {
			t.Errorf("the rows add up to %v, want %v; the last row is %v", sums, want, cells(foot))
		}
	}
}

func TestFilesOfOthers(t *testing.T) {
	b, run, events := mixedRun(t)
	own := b.start("bob", strings.Replace(mixed, "Greet.", "Greet me.", 1))
	alice, bob := b.browser("alice"), b.browser("bob")
	file := "/files/" + run.Program.Digest
	if p := alice.open("/ui/runs/" + run.ID.String() + "/files"); !strings.Contains(p.body, run.Program.Digest) {
		t.Error("the program is not among the files")
	}
	for name, digest := range tipstaff.BodyOf[tipstaff.IntentDraft](&events[0]).Frozen {
		alice.open("/ui/runs/" + run.ID.String() + "/files/" + digest)
		if p := alice.open("/ui/runs/" + run.ID.String() + "/files"); !strings.Contains(p.body, digest) {
			t.Errorf("%s is not among the files", name)
		}
	}
	if p := alice.open("/ui/runs/" + run.ID.String() + file); !strings.Contains(p.text(), "Greet.") {
		t.Error("the program is not shown")
	}
	if p := bob.get("/ui/runs/" + run.ID.String() + file); p.status != http.StatusForbidden {
		t.Errorf("through the run of another it is answered %d", p.status)
	}
	for _, way := range []string{"", "?raw=1", "?image=1"} {
		if p := bob.get("/ui/runs/" + own.ID.String() + file + way); p.status != http.StatusNotFound || strings.Contains(p.body, "Greet.") {
			t.Errorf("through a run that does not refer to it, it is answered %d", p.status)
		}
	}
	root := b.browser("root") // who sees both runs, and goes by one that refers to it all the same
	if p := root.get("/ui/runs/" + own.ID.String() + file); p.status != http.StatusNotFound {
		t.Errorf("an administrator is answered %d through a run that does not refer to it", p.status)
	}
	root.open("/ui/runs/" + run.ID.String() + file)
	if p := root.open("/ui/runs/" + run.ID.String() + "/export.tar"); p.body != alice.open("/ui/runs/"+run.ID.String()+"/export.tar").body {
		t.Error("the export of an administrator is another")
	}
}

// What was remembered of another user's run is in no list, and not to be opened; only an
// administrator is told of tokens, and nobody of their secrets.
func TestMemoryAndTokensOfOthers(t *testing.T) {
	b, run, _ := mixedRun(t)
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	items, err := runner.Memory{Runner: b.Runner}.Items(local, tipstaff.MemoryQuery{Type: "event"})
	if err != nil || len(items) == 0 {
		t.Fatalf("%v: %d", err, len(items))
	}
	at := "/ui/memory/" + strings.TrimPrefix(items[0].Item, "cortex://")
	for user, sees := range map[string]bool{"alice": true, "bob": false, "root": true} {
		w := b.browser(user)
		if p := w.open("/ui/memory"); strings.Contains(p.body, run.ID.String()) != sees || strings.Contains(p.body, at) != sees {
			t.Errorf("%s sees what was remembered: %v", user, !sees)
		}
		want := http.StatusForbidden
		if sees {
			want = http.StatusOK
		}
		if p := w.get(at); p.status != want || !sees && strings.Contains(p.body, run.ID.String()) {
			t.Errorf("%s is answered %d", user, p.status)
		}
		p := w.open("/ui/settings")
		if told := strings.Contains(p.text(), "Last used"); told != (user == "root") || told && !strings.Contains(p.text(), "driver") {
			t.Errorf("%s is told of tokens: %v", user, told)
		}
		for _, c := range b.Tokens {
			if strings.Contains(p.body, c.Secret) {
				t.Errorf("%s is told the secret of %s", user, c.User)
			}
		}
	}
	if p := b.browser("reader").send("/ui/tools/check", nil); p.status != http.StatusForbidden {
		t.Errorf("who may only read has servers asked: %d", p.status)
	}
	if p := b.browser("alice").send("/ui/tools/check", nil); p.status != http.StatusOK || p.id("report") == nil {
		t.Errorf("the check is answered %d: %s", p.status, p.text())
	}
}

func TestProof(t *testing.T) {
	b, run, _ := mixedRun(t)
	w := b.browser("alice")
	base := "/ui/runs/" + run.ID.String()
	if p := w.open(base + "/proof"); p.id("report") != nil || !strings.Contains(p.text(), run.Head) {
		t.Error("the proof is not offered, or was made unasked")
	}
	p := w.send(base+"/proof", url.Values{})
	if p.status != http.StatusOK || p.id("report") == nil || strings.Count(textOf(p.id("report")), " holds ") != 2 {
		t.Fatalf("the proof is answered %d: %s", p.status, p.text())
	}
	first, again := w.open(base+"/export.tar"), w.open(base+"/export.tar")
	if first.body != again.body || !strings.HasPrefix(first.header.Get("Content-Disposition"), "attachment;") {
		t.Error("two exports of one head differ")
	}
	dir := t.TempDir()
	for r := tar.NewReader(strings.NewReader(first.body)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uname != "" || h.Uid != 0 {
			t.Errorf("the export tells when and by whom %s was written", h.Name)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	rep, err := b.Runner.Verify(local, tipstaff.VerifyRequest{Dir: filepath.Join(dir, run.ID.String()), Open: true})
	if err != nil || !rep.Integrity.OK || !rep.Conformance.OK || rep.Head != run.Head {
		t.Errorf("the export does not verify: %v %+v", err, rep)
	}
}
