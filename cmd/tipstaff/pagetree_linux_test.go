package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/sys/unix"
)

// drawnRow is a line of the tree at a terminal: how deep it stands, its mark and its name.
var drawnRow = regexp.MustCompile(`^( *)([·▸?✓✗⊘×!-]) ([^ ]+)`)

// drawnWords are the marks of a terminal in the words of the page.
var drawnWords = map[string]string{"·": "pending", "▸": "running", "?": "waiting", "✓": "done", "✗": "failed", "⊘": "refused", "×": "cancelled", "!": "uncertain", "-": "skipped"}

// frames are the trees that a terminal has shown, one after the other.
func (term *terminal) frames() (all []string) {
	codes := regexp.MustCompile("\x1b\\[[0-9;]*[A-Zmh]|\x1b\\[\\?[0-9]+[hl]|\r")
	for frame := range strings.SplitSeq(term.shown(), "\x1b[J") {
		var rows []string
		for line := range strings.Lines(codes.ReplaceAllString(frame, "")) {
			if m := drawnRow.FindStringSubmatch(line); m != nil {
				rows = append(rows, fmt.Sprint(len(m[1])/2, " ", drawnWords[m[2]], " ", m[3]))
			}
		}
		if tree := strings.Join(rows, "\n"); tree != "" && (len(all) == 0 || all[len(all)-1] != tree) {
			all = append(all, tree)
		}
	}
	return all
}

// tree is that of a page, as frames are.
func (p webPage) tree() string {
	var rows []string
	for n := range p.root.Descendants() {
		if n.Data != "li" || attributeOf(n, "data-key") == "" {
			continue
		}
		depth := 0
		for up := n.Parent; up != nil; up = up.Parent {
			if up.Data == "li" {
				depth++
			}
		}
		var mark, name string
		for d := range n.Descendants() {
			switch class := attributeOf(d, "class"); {
			case d.Type != html.ElementNode:
			case mark == "" && strings.HasPrefix(class, "mark "):
				mark = strings.TrimSpace((webPage{root: d}).text())
			case name == "" && class == "name":
				name = strings.TrimSpace((webPage{root: d}).text())
			}
		}
		rows = append(rows, fmt.Sprint(depth, " ", mark, " ", name))
	}
	return strings.Join(rows, "\n")
}

// What tipstaff watch draws at a terminal while a run goes on is, row by row, what the page shows as
// of a record, one after the other.
func TestThePageShowsTheTreeThatWatchDraws(t *testing.T) {
	t.Parallel()
	var plan strings.Builder
	plan.WriteString("-- steps.yaml --\nkind: plan\nversion: 1\nroot:\n  id: all\n  kind: sequential\n  children:\n  - id: many\n    kind: sequential\n    children:\n")
	for i := range 26 {
		fmt.Fprintf(&plan, "    - {id: step%d, kind: tool_call, tool: \"mcp://builtin/sleep@1.0.0\", args: {duration: 150ms}}\n", i)
	}
	plan.WriteString("  - {id: ok, kind: gate, question: \"Go on?\"}\n")
	w := newWorkspace(t, manifest, plan.String())
	w.endLaunched()
	b := w.serves().browse(t)
	var d detached
	w.Check(json.Unmarshal([]byte(w.Must(0, "run", "steps.yaml", "--detach", "--json").Out), &d))
	run := d.Run
	term := w.atTerminal("watch", run)
	w.Check(unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 120})) // room for all rows
	term.Wait()
	<-term.dark
	records, drawn := w.show(run).HeadSeq, 0
	var pages []string
	for at := range records {
		pages = append(pages, b.get(fmt.Sprintf("/ui/runs/%s?at=%d", run, at+1)).tree())
	}
	frames := term.frames()
	from := 0
	for _, frame := range frames {
		i := slices.Index(pages[from:], frame)
		if i < 0 {
			t.Fatalf("after record %d a terminal shows\n%s\nwhich the page does not", from, frame)
		}
		from += i
	}
	for _, tree := range pages {
		if slices.Contains(frames, tree) {
			drawn++
		}
	}
	if drawn < 20 || len(frames) < 5 {
		t.Errorf("of %d records %d were compared, in %d frames", records, drawn, len(frames))
	}
	if now := b.get("/ui/runs/" + run).tree(); now != frames[len(frames)-1] {
		t.Errorf("at last a terminal shows\n%s\nand the page\n%s", frames[len(frames)-1], now)
	}
}
