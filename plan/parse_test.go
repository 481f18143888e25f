package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const shortPlan = `
kind: plan
version: 1
name: short
tools: [mcp://t/read@1.0.0]
inputs: {file: {type: string}}
bounds: {tool_calls: 20, cost_usd: "0.50", wall_time: 10m}
intent: {verb: build, objects: [{name: notes, value: release notes}], deadline: 2026-01-31}
root:
  kind: sequential
  children:
    - id: read
      kind: tool_call
      tool: mcp://t/read@1.0.0
      args: {path: "${input.file}", content: "", yes: yes, on: on, n: 0o17, h: 0x1F, f: 1.50, when: 2026-01-02, none: ~}
`

const shortJSON = `{"kind":"plan","version":1,"name":"short","tools":["mcp://t/read@1.0.0"],
"inputs":{"file":{"type":"string"}},"bounds":{"tool_calls":20,"cost_usd":"0.50","wall_time":"10m"},
"intent":{"verb":"build","objects":[{"name":"notes","value":"release notes"}],"deadline":"2026-01-31"},
"root":{"kind":"sequential","children":[{"id":"read","kind":"tool_call","tool":"mcp://t/read@1.0.0",
"args":{"path":"${input.file}","content":"","yes":"yes","on":"on","n":15,"h":31,"f":1.5,"when":"2026-01-02","none":null}}]}}`

func mustCheck(t testing.TB, src string) *Document {
	t.Helper()
	d, problems := Check("p.yaml", []byte(src), nil)
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return d
}

func TestYAMLAndJSONAreOneDocument(t *testing.T) {
	y, j := mustCheck(t, shortPlan), mustCheck(t, shortJSON)
	if diff := cmp.Diff(string(j.Canonical()), string(y.Canonical())); diff != "" {
		t.Errorf("canonical forms differ (-json +yaml):\n%s", diff)
	}
	if y.Digest() != j.Digest() || !strings.HasPrefix(y.Digest(), "sha256:") {
		t.Errorf("digests %s and %s", y.Digest(), j.Digest())
	}
}

func TestTheDigestIsOfTheDocumentAsGiven(t *testing.T) {
	explicit := strings.Replace(shortPlan, "version: 1", "version: 1\nfiles: none", 1)
	if mustCheck(t, explicit).Digest() == mustCheck(t, shortPlan).Digest() {
		t.Error("a field that says what is the default anyway left no trace in the digest")
	}
	blank := strings.Replace(shortPlan, `content: "", `, "", 1)
	if mustCheck(t, blank).Digest() == mustCheck(t, shortPlan).Digest() {
		t.Error("an empty string left no trace in the digest")
	}
}

func TestLoadReadsWhatWasFrozen(t *testing.T) {
	d := mustCheck(t, shortPlan)
	loaded, err := Load(d.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Digest() != d.Digest() || loaded.Root.Children[0].Path != "root/read" {
		t.Errorf("loaded %s at %s", loaded.Digest(), loaded.Root.Children[0].Path)
	}
	if _, err := Load(append([]byte(" "), d.Canonical()...)); err == nil {
		t.Error("bytes that are not canonical were loaded")
	}
	if _, err := Load([]byte(`{"kind":"plan"}`)); err == nil {
		t.Error("half a document was loaded")
	}
}

func TestTheDocumentHoldsWhatItSays(t *testing.T) {
	d := mustCheck(t, shortPlan)
	if diff := cmp.Diff(map[string]int64{"tool_calls": 20, "cost_usd": 500_000_000, "wall_time": 600_000}, map[string]int64(d.Limits())); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if want := time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC); !d.Intent.Deadline.Equal(want) {
		t.Errorf("deadline %v, want the last second of the day", d.Intent.Deadline)
	}
	if got := mustCheck(t, "kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?}").Intent.JSON(); string(got) != "{}" {
		t.Errorf("no intent is %s", got)
	}
}

func TestAllowList(t *testing.T) {
	root := `
version: 1
kind: plan
root: {kind: sequential, children: [
  {id: a, kind: tool_call, tool: "mcp://t/b@1.0.0"}, {id: b, kind: tool_call, tool: "mcp://t/a@1.0.0"}, {id: c, kind: tool_call, tool: "mcp://t/b@1.0.0"}]}
`
	for _, test := range []struct {
		name, tools string
		want        []string
	}{
		{"absent: its own calls", "", []string{"mcp://t/b@1.0.0", "mcp://t/a@1.0.0"}},
		{"given", "tools: [mcp://t/c@1.0.0]", []string{"mcp://t/c@1.0.0"}},
		{"empty", "tools: []", []string{}},
		{"none", "tools: none", []string{}},
		{"absent beside a skill", "skill: skill://s@1.0.0", []string{}},
	} {
		d, _ := Parse("p.yaml", []byte(root+test.tools))
		if diff := cmp.Diff(test.want, d.AllowList()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestLimits(t *testing.T) {
	gates := func(n int) string {
		var b strings.Builder
		b.WriteString("kind: plan\nversion: 1\nroot:\n  kind: sequential\n  children:\n")
		for i := range n {
			fmt.Fprintf(&b, "    - {id: g%d, kind: gate, question: \"Go?\"}\n", i)
		}
		return b.String()
	}
	nested := func(levels int) string {
		return `{"kind":"plan","version":1,"root":` + strings.Repeat(`{"kind":"sequential","children":[`, levels-1) +
			`{"id":"a","kind":"gate","question":"Go?"}` + strings.Repeat(`]}`, levels-1) + `}`
	}
	long := func(n int) string {
		return `{"kind":"plan","version":1,"root":{"id":"a","kind":"gate","question":"` + strings.Repeat("x", n) + `"}}`
	}
	wide := func(ids int) string { // every level adds 65 bytes to the path
		var open, end string
		for i := range ids {
			open += fmt.Sprintf(`{"kind":"sequential","id":"%s%02d","children":[`, strings.Repeat("a", 62), i)
			end += "]}"
		}
		return `{"kind":"plan","version":1,"root":{"kind":"sequential","children":[` + open + `{"id":"a","kind":"gate","question":"Go?"}` + end + `]}}`
	}
	for _, test := range []struct {
		name, src string
		ok        bool
	}{
		{"2,000 nodes", gates(1999), true},
		{"2,001 nodes", gates(2000), false},
		{"32 levels", nested(32), true},
		{"33 levels", nested(33), false},
		{"a million characters", long(1_000_000), true},
		{"more than 1 MiB", long(1 << 20), false},
		{"a path of 461 bytes", wide(7), true},
		{"a path of 526 bytes", wide(8), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := Check("p.yaml", []byte(test.src), nil)
			if test.ok && len(problems) > 0 {
				t.Errorf("refused: %+v", problems[0])
			}
			if !test.ok && (len(problems) != 1 || problems[0].Code != "limit" || problems[0].Line == 0) {
				t.Errorf("want one limit with its place, got %+v", problems)
			}
		})
	}
}

func TestRefusedBytes(t *testing.T) {
	for name, src := range map[string]string{
		"byte order mark": "\xef\xbb\xbfkind: plan",
		"NUL":             "kind: plan\x00",
		"not UTF-8":       "kind: \xff",
		"empty":           "",
		"comment alone":   "# nothing",
	} {
		if d, problems := Parse("p.yaml", []byte(src)); d != nil || len(problems) != 1 || problems[0].Code != "syntax" || problems[0].Line != 1 {
			t.Errorf("%s: %v, %+v", name, d, problems)
		}
	}
}

func TestCheckInputs(t *testing.T) {
	d := mustCheck(t, `
kind: plan
version: 1
inputs:
  file: {type: string, minLength: 1}
  n: {type: integer, default: 3}
  note: {type: string, required: false}
  shape: {type: object, required: [a], properties: {a: {type: number}}, default: {a: 1}}
root: {id: a, kind: gate, question: Go?}
`)
	for _, test := range []struct{ given, want, codes string }{
		{`{"file":"x"}`, `{"file":"x","n":3,"shape":{"a":1}}`, ""},
		{`{"file":"x","n":4.0,"note":"","shape":{"a":2}}`, `{"file":"x","n":4,"note":"","shape":{"a":2}}`, ""},
		{`{}`, "", "input_missing"},
		{`{"file":""}`, "", "input_invalid"},
		{`{"file":"x","n":"3"}`, "", "input_invalid"},
		{`{"file":"x","shape":{}}`, "", "input_invalid"},
		{`{"file":"x","n":9007199254740993}`, "", "number_unsafe"},
		{`{"file":"x","z":1,"followup":1}`, "", "input_unknown input_unknown"},
		{`{"n":"x","q":1}`, "", "input_missing input_invalid input_unknown"},
	} {
		var given map[string]json.RawMessage
		if err := json.Unmarshal([]byte(test.given), &given); err != nil {
			t.Fatal(err)
		}
		got, problems := d.CheckInputs(given)
		var codes []string
		for _, p := range problems {
			codes = append(codes, p.Code)
		}
		if string(got) != test.want || strings.Join(codes, " ") != test.codes {
			t.Errorf("%s: %s, %v; want %s, %s", test.given, got, codes, test.want, test.codes)
		}
	}
}

func TestEffectiveTimeout(t *testing.T) {
	slow := workspace{}.Tool("mcp://t/slow@1.0.0")
	for _, test := range []struct {
		node time.Duration
		tool ToolInfo
		want time.Duration
	}{
		{0, slow, 45 * time.Second},
		{time.Minute, slow, time.Minute},
		{time.Second, slow, time.Second},
		{0, ToolInfo{}, 30 * time.Second},
	} {
		if got := (&Node{Timeout: test.node}).EffectiveTimeout(test.tool); got != test.want {
			t.Errorf("node %v, tool %v: %v, want %v", test.node, test.tool.Timeout, got, test.want)
		}
	}
}

func TestOutline(t *testing.T) {
	d := mustCheck(t, `
kind: plan
version: 1
root: {kind: sequential, children: [
  {id: a, kind: tool_call, tool: "mcp://t/once_send@1.0.0"},
  {kind: parallel, children: [{id: b, kind: gate, question: Go?}]}]}
`)
	got, err := json.Marshal(d.Outline(workspace{}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"path":"root","kind":"sequential","children":[` +
		`{"path":"root/a","id":"a","kind":"tool_call","label":"mcp://t/once_send@1.0.0","class":"once"},` +
		`{"path":"root/1","kind":"parallel","children":[{"path":"root/1/b","id":"b","kind":"gate","label":"Go?"}]}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(shortPlan))
	f.Add([]byte(shortJSON))
	if data, err := os.ReadFile("testdata/invalid.txtar"); err == nil {
		for _, doc := range heading.Split(string(data), -1) {
			clean, _ := unmark(doc)
			f.Add([]byte(clean))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, problems := Parse("p.yaml", src)
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("a problem without place, code or message: %+v", p)
			}
		}
		if d == nil {
			return
		}
		d.Outline(nil)
		if len(d.Validate(nil)) > 0 {
			return
		}
		again, problems := Check("again", d.Canonical(), nil)
		if len(problems) > 0 {
			t.Fatalf("the canonical form is refused: %+v", problems)
		}
		if again.Digest() != d.Digest() || !bytes.Equal(again.Canonical(), d.Canonical()) {
			t.Errorf("%s became %s", d.Canonical(), again.Canonical())
		}
	})
}

// Plans that were frozen when the field had another name are still read.
func TestAFrozenPlanMayHaveTheOldNameOfFiles(t *testing.T) {
	const old = `{"kind":"plan","root":{"id":"a","kind":"gate","question":"Go?"},"version":1,"workspace":"none"}`
	if _, err := Load([]byte(old)); err != nil {
		t.Error(err)
	}
	if _, problems := Parse("p.json", []byte(old)); len(problems) != 1 || !strings.Contains(problems[0].Message, "files") {
		t.Errorf("%+v", problems)
	}
	if _, err := Load([]byte(strings.Replace(old, "none", "worktree", 1))); err == nil {
		t.Error("what no release could run is read")
	}
}
