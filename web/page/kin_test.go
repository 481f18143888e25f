package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// meansMarkdown reports whether a text has links or paragraphs where Markdown is read. What becomes
// of those is tested with Markdown itself.
func meansMarkdown(text string) bool {
	return strings.Contains(text, "\n") || strings.Contains(text, "http://") || strings.Contains(text, "](")
}

// shapeOf are the elements of a page with the names of their attributes, in order.
func shapeOf(t *testing.T, body string) (shape []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		switch n.Type {
		case html.ElementNode:
			one := "<" + n.Data
			for _, a := range n.Attr {
				one += " " + a.Key
				if a.Key == "class" {
					one += "=" + a.Val
				}
				if (a.Key == "href" || a.Key == "action" || a.Key == "src") && !strings.HasPrefix(a.Val, "/ui/") && a.Val != "#main" && !strings.HasPrefix(a.Val, "?at=") {
					t.Errorf("an address %q", a.Val)
				}
			}
			shape = append(shape, one)
		case html.CommentNode:
			shape = append(shape, "a comment")
		}
	}
	return shape
}

// drawn is a page around what is given.
func drawn(t *testing.T, name string, page any) string {
	t.Helper()
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, "frame", frame{Title: "t", Page: page, Assets: assets(), Signed: &session{}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// withText are pages whose every text is s.
func withText(s string) map[string]any {
	id, other := tipstaff.NewID(time.Unix(1, 0)), tipstaff.NewID(time.Unix(2, 0))
	at, cost := time.Unix(3, 0), tipstaff.USD(5)
	quoted, _ := json.Marshal(s)
	program := tipstaff.Program{Kind: "turn", Name: s, Digest: s}
	run := tipstaff.Run{ID: id, Title: s, User: s, Status: "completed", Program: program, CreatedAt: at, UpdatedAt: at, Turn: &tipstaff.TurnStatus{Session: s, Number: 2, Agent: s, Model: s, Opening: s}}
	inside := tipstaff.Inside{Worker: s, Invocation: s, Parent: s, Tier: s}
	step := &tipstaff.ConversationStep{Number: 1, Model: s, Started: at, Ended: at, Reason: s, Usage: &tipstaff.ModelUsage{InputTokens: 1, CostUSD: &cost}, Attempts: 2, Cut: tipstaff.AgentCut{Elided: 1, Shortened: 1, Dropped: 1}, Reasoning: s, Answer: 4}
	call := func(arguments, outcome string) *tipstaff.ConversationCall {
		return &tipstaff.ConversationCall{ID: s, Name: s, URI: s, Arguments: json.RawMessage(arguments), Decision: s, DecidedBy: s, Rule: s, Gate: s, Note: s, Outcome: outcome, Code: s, Result: s, Cut: 9, Ref: s, Record: 7,
			RecordRun: other, Started: at, Ended: at, TookMS: 1, Untrusted: true, Media: []tipstaff.ConversationMedia{{Type: s, Bytes: 1, Digest: s}, {Type: "image/png", Bytes: 1, Digest: s, Kept: true}}}
	}
	said := &tipstaff.Conversation{Items: []tipstaff.ConversationItem{
		{Role: tipstaff.RoleUser, Text: s, Ref: s, Path: s, At: at},
		{Role: tipstaff.RoleAssistant, Text: s, Step: step, Path: s, Seq: 3, Run: id, At: at, Inside: inside},
		{Role: tipstaff.RoleAssistant, Step: &tipstaff.ConversationStep{Model: s}, Path: s, Told: s, Seq: 3, Run: id},
		{Role: tipstaff.RoleError, Text: s, Code: s, Seq: 4, Run: id},
		{Role: tipstaff.RoleWorker, Text: s, Code: s, Ref: s, Seq: 5, Run: id, Inside: inside},
		{Role: s, Text: s, Seq: 6, Run: id},
		{Role: tipstaff.RoleTool, Call: call(fmt.Sprintf(`{"a": %s, %s: {"b": [%s]}}`, quoted, quoted, quoted), tipstaff.CallOK), Seq: 7, Run: id, Inside: inside},
		{Role: tipstaff.RoleTool, Call: call(s, tipstaff.CallAsked), Seq: 8, Run: id},
	}}
	shown := &runView{Run: run, Header: runHeader{Run: run}}
	relative := tipstaff.Relative{Run: other, Parent: id, Relation: s, Seq: 4, Title: s, Program: program, Status: "failed", Outcome: s, Created: at}
	itself := relative
	itself.Run = id
	older, tree := familyTree(tipstaff.Family{Run: itself, Ancestors: slices.Repeat([]tipstaff.Relative{relative}, familyNested+2), Children: []tipstaff.Relative{relative}, Siblings: []tipstaff.Relative{relative}})
	cell := &tipstaff.CompareCell{State: s, Attempts: 2, Took: time.Second, Cost: 1, Result: s, Seq: 3}
	first := 0
	asked := cutBytes(s, addressMost)
	compared := comparePage{A: asked, B: asked, Found: true, Path: asked, Order: "changed", Of: tipstaff.Comparison{
		A: tipstaff.ComparedRun{Run: id, Seq: 3, Title: s, Status: "completed"}, B: tipstaff.ComparedRun{Run: other, Title: s, Status: "failed"}, Shared: 3, First: &first,
		Rows:   []tipstaff.CompareRow{{Path: s, Kind: s, A: cell, B: cell, Differs: []string{s}}, {Path: s + s, Kind: s, A: cell, Differs: []string{"only_a"}}, {Path: s, B: cell, Differs: []string{"only_b"}}},
		Values: []tipstaff.CompareValue{{Name: s, A: quoted}, {Name: "bound/" + s, B: json.RawMessage("7")}, {Name: "input/" + s, A: json.RawMessage(s), B: quoted}}}}
	compared.fill(0)
	info := tipstaff.ToolInfo{Server: s, Tool: s, URI: s, Version: s, Digest: s, Lock: s, Class: s, ClassFrom: s, Timeout: s, MaxResult: 1, Title: s, Description: s, Trouble: s, Definition: quoted}
	drift := tipstaff.ToolFinding{Level: s, Code: s, Server: s, Tool: s, Message: s, Changes: []tipstaff.PinChange{{Server: s, Tool: s, Kind: tipstaff.PinChanged, Member: s, Was: json.RawMessage(`"old"`), Now: quoted}}}
	item := tipstaff.MemoryItem{Item: "cortex://fact/" + asked, Type: s, Text: s, By: s, CreatedAt: at, LastUsedAt: at, Skill: s, Verb: s, Server: s, Run: id, Path: s, Kind: s, Tool: s, Outcome: s, Digest: s, Pinned: true, Factors: tipstaff.MemoryFactors{}}
	weights := weightLines(tipstaff.MemoryWeights{}, make([]tipstaff.MemoryWeights, 3))
	finding := tipstaff.NothingFound()
	finding.Note(tipstaff.Problem{Code: s, Seq: 3, Message: s})
	inChat := transcriptOf(run, said, 0, len(said.Items))
	short := cutBytes(s, 4000) // as subjects and errors are
	gate := tipstaff.Gate{ID: other, Kind: tipstaff.Approval, Question: short, Path: s, Digest: "sha256:00", Actions: []string{"allow", "deny"}}
	inChat.Asks = []*transcriptGate{{Page: &gatePage{Run: run, Gate: gate, Subject: []subjectRow{{Name: short, Text: short}, {Block: []string{short}}}, Form: &gateForm{ID: "-1", Actions: []gateAction{{Name: "allow", Command: short}}}}, Back: "/ui/sessions/x"}}
	chat := tipstaff.Chat{Session: s, Opening: s, Turns: []tipstaff.Run{run}, Earlier: id, Own: true}
	typed := chatForm{Typed: url.Values{"message": {tipstaff.PrintableProse(s)}}, Wrong: &sent{Text: short, Hint: short, // a draft comes back as it was typed
		Problems: []tipstaff.Problem{{Message: short}}}}
	return map[string]any{
		"tools": toolsPage{Servers: []toolServer{{Name: s, Version: s, Tools: []toolRow{{ToolInfo: info, Static: s}}}}, Report: &tipstaff.ToolReport{Servers: []tipstaff.ToolServer{{Server: s, Version: s}}}, Findings: []toolFinding{{drift, driftOf(drift.Changes)}}, Pin: []string{s}},
		"tool":  toolPage{ToolInfo: info, Missing: s, Explanation: tipstaff.Explanation{Static: s, Rule: s, Why: s}, Schema: passage(cutBytes(s, shownBytes)), Uses: []tipstaff.MemoryItem{item}},
		"memory": memoryPage{Types: tipstaff.MemoryTypes(), Items: []tipstaff.MemoryItem{item}, More: 1, Weights: weights, Log: []tipstaff.MemoryRecord{{Seq: 1, Kind: s, At: at, Run: id, Text: s}}, Earlier: true, Trouble: s,
			Report: &tipstaff.MemoryReport{Head: s, Log: finding, State: finding}},
		"memory_item": memoryItemPage{item, tipstaff.MemoryWeights{}, []itemFactor{{"R", "recency", 1, 1}}},
		"settings":    settingsPage{Choices: choices, Daemon: Daemon{Store: s}, Tokens: []tipstaff.TokenUse{{User: s, Scopes: []string{s}, Last: at}}},
		"talk":        transcriptPage{runView: shown, Path: s, Places: []tipstaff.ConversationPlace{{Path: s}, {Path: "another"}}, Talk: transcriptOf(run, said, 0, len(said.Items))},
		"session":     chatPage{Chat: chat, Shown: []transcript{inChat}, Form: typed},
		"sessions":    tipstaff.ChatPage{Chats: []tipstaff.Chat{chat}, Next: id},
		"family":      familyPage{runView: shown, Older: older, Tree: tree, Cut: true},
		"compare":     compared,
	}
}

// Whatever a text says, it adds no element, attribute or address to a page.
func TestHostileTextOfKin(t *testing.T) {
	plain := map[string][]string{}
	for name, page := range withText("x") {
		plain[name] = shapeOf(t, drawn(t, name, page))
	}
	for _, text := range hostileTexts(t) {
		if meansMarkdown(text) {
			continue
		}
		text = text[:min(len(text), 50_000)] // ids stand in addresses, whole
		hostile := withText(text)
		for name, want := range plain {
			body := drawn(t, name, hostile[name])
			got := shapeOf(t, body)
			if len(text) > 10_000 { // what is cut says how much
				got, want = slices.DeleteFunc(got, ofCut), slices.DeleteFunc(slices.Clone(want), ofCut)
			}
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Errorf("%.40q changes %s: %q, without it %q", text, name, got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
					break
				}
			}
			if strings.ContainsAny(body, "\x00\x1b\u202e\u2066\u200b") {
				t.Errorf("%.40q is shown as it is in %s", text, name)
			}
			if len(body) > 1<<20 {
				t.Errorf("%.40q makes %d bytes of %s", text, len(body), name)
			}
		}
	}
}

func ofCut(one string) bool { return one == "<p class=quiet" || one == "<a href" }
