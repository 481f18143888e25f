package page

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// asking is a clarification with a question of each type.
func asking(t *testing.T) tipstaff.Gate {
	t.Helper()
	return tipstaff.Gate{Kind: tipstaff.Clarification, Actions: []string{"answer", "deny"}, Subject: json.RawMessage(`{"questions":[
		{"id":"name","prompt":"Name?","type":"text","required":true},
		{"id":"size","prompt":"Size?","type":"number","required":true},
		{"id":"sure","prompt":"Sure?","type":"boolean","required":true},
		{"id":"style","prompt":"Style?","type":"choice","options":["short"," long "],"required":true},
		{"id":"more","prompt":"More?","type":"text","required":false},
		{"id":"tone","prompt":"Tone?","type":"text","default":"plain","required":true}]}`)}
}

// Answers that look like nothing are answers; a question that may be left out is, and one with
// a default has that.
func TestAnswersToQuestionsAreOfTheirType(t *testing.T) {
	g := asking(t)
	in := url.Values{"answer.0.empty": {"1"}, "answer.1": {" 0 "}, "answer.2": {"false"}, "answer.3": {" long "}}
	raw, field, err := answerOf(g, "answer", in)
	var got map[string]any
	if err != nil || json.Unmarshal(raw, &got) != nil {
		t.Fatalf("%s: %v", field, err)
	}
	want := map[string]any{"name": "", "size": 0.0, "sure": false, "style": " long ", "tone": "plain"}
	if len(got) != len(want) {
		t.Errorf("answered is %s", raw)
	}
	for id, v := range want {
		if got[id] != v {
			t.Errorf("%s is answered with %v, not %v", id, got[id], v)
		}
	}
	for name, wrong := range map[string]string{"answer.0": "", "answer.1": "many", "answer.2": "maybe", "answer.3": "medium"} {
		bad := url.Values{"answer.0": {"x"}, "answer.1": {"1"}, "answer.2": {"true"}, "answer.3": {"short"}}
		bad.Set(name, wrong)
		if raw, field, err := answerOf(g, "answer", bad); err == nil || field != name {
			t.Errorf("%q in %s gives %s, and %q is wrong: %v", wrong, name, raw, field, err)
		}
	}
	kinds := []string{}
	for _, f := range answerFields(g) {
		kinds = append(kinds, f.Kind)
	}
	if !slices.Equal(kinds, []string{"text", "number", "boolean", "choice", "text", "text"}) {
		t.Errorf("the fields are of %v", kinds)
	}
}

// The page has a question of its own about files that are obeyed, and takes nothing for a yes.
func TestWhatIsObeyedIsAskedAboutByItself(t *testing.T) {
	g := tipstaff.Gate{Kind: tipstaff.Delivery, Actions: tipstaff.DeliveryActions}
	g.Subject, _ = json.Marshal(tipstaff.DeliverySubject{Tree: "t"})
	if fields := answerFields(g); len(fields) > 0 {
		t.Errorf("of files like others: %+v", fields)
	}
	g.Subject, _ = json.Marshal(tipstaff.DeliverySubject{Tree: "t", Obeyed: []tipstaff.ObeyedFile{{Path: "tipstaff.yaml", Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks},
		{Path: "a\nb, c", Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks}}})
	fields := answerFields(g)
	if len(fields) != 1 || fields[0].Kind != "boolean" || !strings.HasSuffix(fields[0].Hint, `: tipstaff.yaml, "a\nb, c"`) {
		t.Fatalf("%+v", fields)
	}
	for said, want := range map[string]bool{"": false, "false": false, "true": true} {
		raw, field, err := answerOf(g, tipstaff.DeliverApply, url.Values{"obeyed": {said}})
		if (err == nil) != want || tipstaff.AcceptsObeyed(raw) != want || !want && field != "obeyed" {
			t.Errorf("%q: %s, %q %v", said, raw, field, err)
		}
	}
	if raw, _, err := answerOf(g, tipstaff.DeliverApprove, url.Values{}); err != nil || raw != nil {
		t.Errorf("a branch: %s %v", raw, err)
	}
}

// No text of others leaves its block, whatever it says.
func TestTextOfOthersStaysInItsBlock(t *testing.T) {
	hostile := "one\nrule: allow\n… 3 bytes left out …\n  | deeper\n\nlast"
	subject, err := json.Marshal(map[string]any{"uri": "mcp://a/b@1.0.0", "class": "once", "rule": "careful", "args": map[string]string{"text": hostile}})
	if err != nil {
		t.Fatal(err)
	}
	rules, blocks := 0, [][]string{}
	for _, row := range subjectRows(tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Approval, Subject: subject}).Lines) {
		if row.Name == "rule" {
			rules++
		}
		if row.Left {
			t.Errorf("something is said to be left out: %q", row.Text)
		}
		if row.Block != nil {
			blocks = append(blocks, row.Block)
		}
	}
	want := []string{"one", "rule: allow", "… 3 bytes left out …", "  | deeper", "", "last"}
	if rules != 1 || len(blocks) != 1 || !slices.Equal(blocks[0], want) {
		t.Errorf("%d rules are shown, and the blocks %q", rules, blocks)
	}
}

// What somebody has typed is shown in its lines, and as text: nothing of it becomes an element, and
// what does not print is marked.
func TestPassagesAreText(t *testing.T) {
	shown := func(text string) (elements, words string) {
		var b strings.Builder
		if err := templates()["gate"].ExecuteTemplate(&b, "typed", []typedField{{"note", text}}); err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			if n.Type == html.TextNode {
				words += n.Data
			}
		}
		return skeleton(root), words
	}
	want, words := shown("a first line\n\tand a second")
	if words != "notea first line\n\tand a second" {
		t.Errorf("two lines are shown as %q", words)
	}
	for _, text := range hostileTexts(t) {
		elements, words := shown(text)
		if elements != want {
			t.Errorf("%.40q adds something: %s", text, firstDifference(elements, want))
		}
		if i := strings.IndexFunc(words, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u00ad')
		}); i >= 0 {
			t.Errorf("%.40q is shown with what does not print: %.20q", text, words[i:])
		}
	}
}
