package page

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// pageMost is how many bytes a page may have, however large its run is.
const pageMost = 2 << 20

// spoken is a turn of about so many records: an agent that calls models and tools, one in ten
// of which fails. Messages and results are repeated so many times.
func spoken(s *told, records, words, brings int) {
	said, brought := strings.Repeat("words, ", words), strings.Repeat("0123456789abcdef", brings)
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	s.tell(tipstaff.KindPlanStep, "turn", map[string]any{"node": "turn", "status": "started"})
	for step := 1; len(s.events) < records; step++ {
		model, tool := fmt.Sprintf("turn/model#%d", step), fmt.Sprintf("turn/tool#%d.1", step)
		s.tell(tipstaff.KindAgentStepStarted, model, map[string]any{"step": step, "model": "toy"})
		s.tell(tipstaff.KindEffectIntended, model, map[string]any{"name": "model.call", "class": "read", "attempt": 1, "reserve": map[string]any{"model_calls": 1}})
		s.tell(tipstaff.KindEffectFinished, model, map[string]any{"name": "model.call", "attempt": 1, "value": map[string]any{"text": said}, "ms": 700})
		s.tell(tipstaff.KindAgentMessage, model, map[string]any{"step": step, "text": said, "calls": 1, "usage": map[string]any{"total_tokens": 50}})
		s.tell(tipstaff.KindAgentToolCallRequest, tool, map[string]any{"step": step, "index": 1, "id": fmt.Sprint("c", step), "server": "builtin", "tool": "read_file", "arguments": map[string]any{"path": "a.txt"}})
		s.tell(tipstaff.KindAgentApprovalDecided, tool, map[string]any{"id": fmt.Sprint("c", step), "decision": "allow", "by": "policy", "rule": "reads"})
		s.tell(tipstaff.KindEffectIntended, tool, map[string]any{"name": "tool.call", "class": "read", "attempt": 1, "reserve": map[string]any{"tool_calls": 1}})
		done := map[string]any{"name": "tool.call", "attempt": 1, "value": map[string]any{"content": []any{map[string]any{"type": "text", "text": brought}}}, "ms": 200}
		if step%10 == 0 {
			done["error"] = map[string]any{"code": "tool_error", "message": "no such file"}
		}
		s.tell(tipstaff.KindEffectFinished, tool, done)
		s.tell(tipstaff.KindAgentToolCallResult, tool, map[string]any{"id": fmt.Sprint("c", step), "content": brought})
	}
}

// deep is a plan of so many nodes in branches of fifty, each with a title longer than a row.
func deep(s *told, nodes int) {
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	for i := range nodes {
		path := fmt.Sprintf("root/branch%d/%s%d", i/50, strings.Repeat("step", 75), i)
		s.tell(tipstaff.KindEffectIntended, path, map[string]any{"name": "tool.call", "class": "read", "attempt": 1, "reserve": map[string]any{"tool_calls": 1}})
		s.tell(tipstaff.KindEffectFinished, path, map[string]any{"name": "tool.call", "attempt": 1, "value": 1, "ms": 1})
	}
}

// Every view of a large run opens as a page of a bounded size, with rows of a bounded length.
func TestViewsOfLargeRuns(t *testing.T) {
	records, result := []int{10_000}, 1<<20
	if !testing.Short() || os.Getenv("TIPSTAFF_MORE") != "" {
		records, result = append(records, 100_000), 8<<20
	}
	type fixture struct {
		name, kind, path string // of a node
		fill             func(*told)
	}
	all := []fixture{
		{"a plan of 2,000 nodes", "plan", "root", func(s *told) { deep(s, 2000) }},
		{"a branch of 1,900 steps", "plan", "root", func(s *told) { wide(s, 1900) }},
		{"a message of 1 MB and a large result", tipstaff.ProgramTurn, "turn", func(s *told) { spoken(s, 10, 1_000_000/7, result/16) }},
		{"a pipeline of 60 stages", tipstaff.ProgramPipeline, "stage7", func(s *told) { tall(s, graphFits) }},
		{"a pipeline of 300 stages", tipstaff.ProgramPipeline, "stage7", func(s *told) { tall(s, graphStages) }},
		{"a pipeline of 301 stages", tipstaff.ProgramPipeline, "stage7", func(s *told) { tall(s, graphStages+1) }},
	}
	for _, n := range records {
		all = append(all, fixture{fmt.Sprintf("a turn of %d records", n), tipstaff.ProgramTurn, "turn", func(s *told) { spoken(s, n, 1, 1) }})
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			s := newTold(t, f.kind)
			f.fill(s)
			v, head := s.visitor(t), s.run.HeadSeq
			views := []string{"", "/timeline", "/timeline?scale=real", "/timeline?skip=150", "/journal", "/journal?after=0&limit=300", fmt.Sprintf("/journal?after=%d&limit=300", head/2),
				"/journal?kind=effects&limit=300", "/journal?failed=1", "/journal?limit=5000&path=" + f.path, "/cost", "/files", "/family", "/proof", "/talk"}
			views = append(views, "?at=1", fmt.Sprintf("?at=%d", head/2), fmt.Sprintf("?at=%d", head), fmt.Sprintf("/timeline?at=%d", head/2), fmt.Sprintf("/talk?at=%d", head/2))
			for _, seq := range []int64{1, head / 2, head - 2, head - 1, head} {
				views = append(views, fmt.Sprintf("/journal/%d", seq))
			}
			for _, rest := range append(views, "/node?path="+f.path, fmt.Sprintf("/node?path=%s&at=%d", f.path, head)) {
				root, body := v.open(rest)
				for what, c := range map[string]struct {
					most int
					is   func(*html.Node) bool
				}{
					"elements":              {elementsMost, func(*html.Node) bool { return true }},
					"rows of the journal":   {windowMost, func(n *html.Node) bool { return n.Data == "tr" && attr(n, "data-key") != "" }},
					"rows of the timeline":  {200, class("lane")},
					"marks of the timeline": {1500, func(n *html.Node) bool { return class("bar")(n) || class("moment")(n) }},
					"rows of the tree":      {treeRows, func(n *html.Node) bool { return n.Data == "li" && attr(n, "data-key") != "" }},
				} {
					if n := len(find(root, c.is)); n > c.most {
						t.Errorf("%s has %d %s, at most %d", rest, n, what, c.most)
					}
				}
				for _, table := range find(root, func(n *html.Node) bool { return n.Data == "table" && class("cost")(n) }) {
					sumsUp(t, table)
				}
				if len(body) > pageMost {
					t.Errorf("%s has %d bytes, at most %d", rest, len(body), pageMost)
				}
				rows := func(n *html.Node) bool { return n.Data == "tr" || class("row")(n) || class("lane")(n) }
				longest := ""
				for _, row := range find(root, rows) {
					for n := range row.Descendants() {
						if text := strings.TrimSpace(n.Data); n.Type == html.TextNode && utf8.RuneCountInString(text) > utf8.RuneCountInString(longest) {
							longest = text
						}
					}
				}
				if n := utf8.RuneCountInString(longest); n > rowMost {
					t.Errorf("%s has a row with %d letters: %.80s…", rest, n, longest)
				}
			}
			s.countsAreTrue(t, v)
		})
	}
}

// sumsUp fails unless the rows of a bill make its total, however many of them stand in one row.
func sumsUp(t *testing.T, table *html.Node) {
	t.Helper()
	calls := func(row *html.Node) (n int) {
		for _, cell := range find(row, class("num"))[:2] { // of models and of tools
			many, err := strconv.Atoi(strings.ReplaceAll(textOf(cell), ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			n += many
		}
		return n
	}
	sum := 0
	for _, row := range find(table, class("whole")) {
		sum += calls(row)
	}
	if total := calls(find(table, func(n *html.Node) bool { return n.Data == "tfoot" })[0]); sum != total || total == 0 {
		t.Errorf("the rows of a bill have %d calls, its total is %d", sum, total)
	}
}

const rowMost = 200 // letters of a string in a row

var (
	foundText = regexp.MustCompile(`([\d,]+) found`)
	newerLink = regexp.MustCompile(`href="[^"]*/journal(\?[^"]*)" rel="next"`)
)

// countsAreTrue compares what the journal says it has found, window by window, with what is
// there.
func (s *told) countsAreTrue(t *testing.T, v *visitor) {
	for rest, fits := range map[string]func(*tipstaff.Event) bool{
		"kind=effect.finished": func(e *tipstaff.Event) bool { return e.Kind == tipstaff.KindEffectFinished },
		"path=root%2Fs1":       func(e *tipstaff.Event) bool { return strings.HasPrefix(e.Path, "root/s1") },
		"q=tool_error":         func(e *tipstaff.Event) bool { return strings.Contains(string(e.Body), "tool_error") },
	} {
		want := 0
		for i := range s.events {
			if fits(&s.events[i]) {
				want++
			}
		}
		found, seen := 0, map[string]bool{}
		for next := "?limit=300&after=0&" + rest; next != ""; {
			root, body := v.open("/journal" + next)
			rows := seqs(root)
			for _, seq := range rows {
				if seen[seq] {
					t.Fatalf("%s: record %s is shown twice", rest, seq)
				}
				seen[seq] = true
			}
			n, err := strconv.Atoi(strings.ReplaceAll(foundText.FindStringSubmatch(body)[1], ",", ""))
			if err != nil || n < len(rows) {
				t.Fatalf("%s: %d found, and %d shown: %v", rest, n, len(rows), err)
			}
			if found += len(rows); n > len(rows) && newerLink.FindString(body) == "" {
				t.Fatalf("%s: %d found, %d shown, and no way to the others", rest, n, len(rows))
			}
			next = ""
			if m := newerLink.FindStringSubmatch(body); m != nil {
				next = html.UnescapeString(m[1])
			}
		}
		if found != want {
			t.Errorf("%s: %d found, want %d", rest, found, want)
		}
	}
}
