package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff"
)

// TestView feeds records to a view and looks at the screen. Commands:
//
//	outline               lines "path kind label", parents first; begins a new view
//	bulk of=N             like outline: a parallel node with N tool calls root/0 …
//	pipeline              lines "stage label"; begins a new view of a pipeline
//	events                lines "+time kind path body"; path - is the run itself
//	render [width=] [height=] [at=+time]
func TestView(t *testing.T) {
	datadriven.Walk(t, "testdata/view", func(t *testing.T, path string) {
		v := newView(runA, "notes", nil)
		seq := int64(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "outline":
				v, seq = newView(runA, "notes", parseOutline(t, d.Input)), 0
			case "bulk":
				var n int
				d.ScanArgs(t, "of", &n)
				v, seq = newView(runA, "notes", bulk(n)), 0
			case "pipeline":
				v, seq = newView(runA, "notes", parseStages(d.Input)), 0
			case "events":
				for _, text := range strings.Split(d.Input, "\n") {
					seq++
					e := parseEvent(t, seq, text)
					v.Apply(&e)
				}
			case "render":
				return renderText(t, v, d)
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			return ""
		})
	})
}

func renderText(t *testing.T, v view, d *datadriven.TestData) string {
	width, height, at := 60, 20, "+0s"
	d.MaybeScanArgs(t, "width", &width)
	d.MaybeScanArgs(t, "height", &height)
	d.MaybeScanArgs(t, "at", &at)
	var b strings.Builder
	for _, l := range v.render(width, height, after(t, at)) {
		fmt.Fprintln(&b, l.text(false))
	}
	return b.String()
}

func after(t *testing.T, offset string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(offset)
	if err != nil {
		t.Fatal(err)
	}
	return epoch.Add(d)
}

func parseOutline(t *testing.T, text string) *tipstaff.Outline {
	t.Helper()
	var root *tipstaff.Outline
	all := map[string]*tipstaff.Outline{}
	for _, l := range strings.Split(text, "\n") {
		f := append(strings.SplitN(l, " ", 3), "", "")
		o := &tipstaff.Outline{Path: f[0], Kind: f[1], Label: f[2]}
		all[o.Path] = o
		if parent := all[above(o.Path)]; parent != nil {
			parent.Children = append(parent.Children, o)
		} else {
			root = o
		}
	}
	return root
}

// above is the path of the node that a node stands in.
func above(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// parseStages is the outline of a pipeline; without lines, one whose stages nobody
// has told of.
func parseStages(text string) *tipstaff.Outline {
	root := &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: "notes"}
	for l := range strings.Lines(text) {
		name, label, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		root.Children = append(root.Children, &tipstaff.Outline{Path: name, ID: name, Kind: "stage", Label: label})
	}
	return root
}

func bulk(n int) *tipstaff.Outline {
	root := &tipstaff.Outline{Path: "root", Kind: "parallel"}
	for i := range n {
		root.Children = append(root.Children, &tipstaff.Outline{Path: fmt.Sprintf("root/%d", i), Kind: "tool_call", Label: "mcp://x/y@1.0.0"})
	}
	return root
}

func parseEvent(t *testing.T, seq int64, text string) tipstaff.Event {
	t.Helper()
	f := append(strings.SplitN(text, " ", 4), "{}")
	if len(f) < 4 {
		t.Fatalf("not an event: %q", text)
	}
	if f[2] == "-" {
		f[2] = ""
	}
	if !json.Valid([]byte(f[3])) {
		t.Fatalf("not JSON: %s", f[3])
	}
	return tipstaff.Event{Seq: seq, Epoch: 1, At: after(t, f[0]), Kind: tipstaff.Kind(f[1]), Path: f[2], Body: json.RawMessage(f[3])}
}

// FuzzRender draws views of hostile records on terminals of any size.
func FuzzRender(f *testing.F) {
	f.Add("read", "mcp://builtin/read_file@1.0.0", "Publish?", "root/read/model#1", uint8(60), uint8(20), uint16(3))
	f.Add("\x1b[2J", "\u202etxet", "日本語\r\n", "a//b/\x00", uint8(7), uint8(2), uint16(200))
	f.Add("read", "👩\u200d👧 می\u200cخواهم", "שלום\u200f?", "root/read", uint8(60), uint8(20), uint16(3))
	f.Add("", "❤\ufe0f👩‍👩‍👧", strings.Repeat("\u0301", 50), "/", uint8(1), uint8(1), uint16(0))
	f.Fuzz(func(t *testing.T, name, label, question, path string, width, height uint8, n uint16) {
		w, h := int(width)+1, int(height)+1
		v := newView(runA, name, fuzzOutline(name, label, int(n)%300))
		for seq, ev := range fuzzEvents(question, path, name) {
			ev.Seq = int64(seq + 1)
			v.Apply(&ev)
			lines := v.render(w, h, epoch.Add(time.Duration(seq)*time.Second))
			if len(lines) > h {
				t.Fatalf("%d lines on a terminal of %d", len(lines), h)
			}
			for _, l := range lines {
				checkLine(t, l, w)
			}
		}
	})
}

func checkLine(t *testing.T, l line, width int) {
	t.Helper()
	text := l.text(false)
	columns := 0
	for _, r := range text {
		shapes := unicode.Is(unicode.Join_Control, r) || r == '\u200e' || r == '\u200f' || r == '\u061c' // which scripts need
		if !unicode.IsPrint(r) && !shapes {
			t.Fatalf("%U reached the terminal: %q", r, text)
		}
		if !unicode.In(r, unicode.Mn, unicode.Me) && !shapes {
			columns++
		}
	}
	if l.cells() > width || columns > width {
		t.Fatalf("%d cells, %d characters, in %d columns: %q", l.cells(), columns, width, text)
	}
	if bare := stripColors(l.text(true)); strings.TrimRight(bare, " ") != text {
		t.Fatalf("in colour it reads %q, without %q", bare, text)
	}
}

func stripColors(s string) string {
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ := strings.Cut(rest, "m")
		s = before + after
	}
}

func fuzzOutline(name, label string, n int) *tipstaff.Outline {
	if n == 0 {
		return nil
	}
	o := bulk(n)
	o.Children[0].ID, o.Children[0].Label = name, label
	return o
}

func fuzzEvents(question, path, name string) []tipstaff.Event {
	body := func(v any) json.RawMessage {
		b, _ := json.Marshal(v)
		return b
	}
	return []tipstaff.Event{
		{Kind: "intent.draft", At: epoch, Body: body(map[string]any{"title": name, "bounds": map[string]any{name: question}})},
		{Kind: "run.started", At: epoch},
		{Kind: "effect.intended", Path: path, At: epoch, Body: body(map[string]any{"reserve": map[string]int64{name: 3}})},
		{Kind: "policy.gate", Path: "root/1/approval", At: epoch, Body: body(map[string]any{"gate": "g", "question": question})},
		{Kind: "policy.gate", Path: path, At: epoch, Body: body(map[string]any{"gate": name, "question": question})},
		{Kind: "plan.step", Path: "root/0", At: epoch, Body: body(map[string]any{"status": "failed", "error": map[string]string{"code": name, "message": question}})},
		{Kind: "effect.finished", Path: path, At: epoch, Body: json.RawMessage(question)},
		{Kind: "policy.gate.resolve", Path: path, At: epoch, Body: body(map[string]any{"gate": name, "action": question})},
		{Kind: "intent.fail", At: epoch, Body: body(map[string]any{"reason": question, "message": name})},
	}
}

func BenchmarkRender2000(b *testing.B) {
	v := newView(runA, "notes", bulk(2000))
	v.Apply(&tipstaff.Event{Kind: "run.started", At: epoch})
	for i := range 1000 {
		v.Apply(&tipstaff.Event{Kind: "plan.step", Path: fmt.Sprintf("root/%d", i), At: epoch, Body: json.RawMessage(`{"status":"completed"}`)})
	}
	for b.Loop() {
		v.render(80, 24, epoch)
	}
}

// The tree shows which program a call starts, on one row and without what would paint on it.
func TestTheProgramOfACallIsShown(t *testing.T) {
	o := bulk(1)
	o.Children[0].Given = json.RawMessage(`{"args":{"argv":["./post.sh","to Ada","\u001b[2J"]}}`)
	var b strings.Builder
	for _, l := range newView(runA, "notes", o).render(100, 20, epoch) {
		fmt.Fprintln(&b, l.text(false))
	}
	contains(t, "the tree", b.String(), `./post.sh 'to Ada' `)
	if strings.Contains(b.String(), "\x1b[2J") {
		t.Errorf("an escape was let through: %q", b.String())
	}
}
