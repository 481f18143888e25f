package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Histories are written as lines: "u" is a user message, "a" an assistant message,
// "a:n" one with n calls, "r" a result; a number behind it is its bytes.
func history(lines string) []Message {
	var messages []Message
	var open []string
	calls := 0
	for _, word := range strings.Fields(lines) {
		var n, bytes int
		head, size, _ := strings.Cut(word, "=")
		fmt.Sscanf(size, "%d", &bytes)
		kind, count, _ := strings.Cut(head, ":")
		fmt.Sscanf(count, "%d", &n)
		text := strings.Repeat("x", bytes)
		switch kind {
		case "u":
			messages = append(messages, Message{Role: User, Text: text})
		case "a":
			m := Message{Role: Assistant, Text: text}
			for range n {
				calls++
				m.Calls = append(m.Calls, Call{ID: fmt.Sprint("c", calls)})
				open = append(open, m.Calls[len(m.Calls)-1].ID)
			}
			messages = append(messages, m)
		case "r":
			messages = append(messages, Message{Role: FromTool, CallID: open[0], Content: []Content{{Type: ContentText, Text: text}}})
			open = open[1:]
		}
	}
	return messages
}

// outline is what was sent: a letter for each message, and ~ for an elided result.
func outline(c cutting) string {
	var words []string
	for _, m := range c.messages {
		word := map[Role]string{User: "u", Assistant: "a", FromTool: "r"}[m.Role]
		if m.Role == FromTool && strings.HasPrefix(m.Content[0].Text, "[") {
			word = "~"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestCutting(t *testing.T) {
	for _, c := range []struct {
		name    string
		history string
		turn    int // index of the current user message
		budget  int64
		want    string // "": it does not fit
		cut     Cut
	}{
		{"everything fits", "u=30 a=30 u=30", 2, 30, "u a u", Cut{}},
		{"nothing can be left out", "u=300", 0, 30, "", Cut{}},
		{"old results become lines, the oldest first", "u=30 a:1=3 r=900 a:1=3 r=900 a:1=3 r=30 a:1=3 r=30", 0, 400, "u a ~ a r a r a r", Cut{Elided: 1}},
		{"all old results become lines", "u=30 a:1=3 r=900 a:1=3 r=900 a:1=3 r=30 a:1=3 r=30", 0, 120, "u a ~ a ~ a r a r", Cut{Elided: 2}},
		{"the last two steps stay whole", "u=30 a:1=3 r=900 a:1=3 r=900", 0, 315, "u a r", Cut{Dropped: 2}},
		{"a small result stays as it is", "u=300 a:1=3 r=3 a=3 u=30 a:1=3 r=30 a:1=3 r=30", 4, 60, "u a r a r", Cut{Dropped: 4}},
		{"the oldest exchange goes first", "u=300 a=30 u=300 a=30 u=30", 4, 130, "u a u", Cut{Dropped: 2}},
		{"then the next", "u=300 a=30 u=300 a=30 u=30", 4, 100, "u", Cut{Dropped: 4}},
		{"an exchange goes with its calls and results", "u=300 a:2=30 r=3 r=3 a=3 u=30", 5, 30, "u", Cut{Dropped: 5}},
		{"then the oldest group of the turn", "u=30 a:2=300 r=30 r=30 a:1=30 r=30", 0, 60, "u a r", Cut{Dropped: 3}},
		{"never the last group", "u=30 a:1=300 r=30", 0, 60, "", Cut{}},
		{"never the message of the turn", "u=300 a:1=3 r=3 a:1=3 r=3", 0, 60, "", Cut{}},
		{"an answer that was sent back goes with what it was told", "u=30 a=300 u=30 a=3 u=30", 0, 50, "u a u", Cut{Dropped: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := window{budget: c.budget, turn: c.turn}.fit(newConversation(history(c.history)))
			if (err == nil) != (c.want != "") {
				t.Fatalf("%v", err)
			}
			if err == nil && (outline(got) != c.want || got.Cut != c.cut) {
				t.Errorf("sent %q %+v, want %q %+v", outline(got), got.Cut, c.want, c.cut)
			}
		})
	}
}

// Three results of one step that fit the window only together with less than each has:
// the large ones are left with the same, the small one stays whole.
func TestTheNewestResultsShareWhatIsLeft(t *testing.T) {
	messages := history("u=30 a:3=3 r=40000 r=900 r=40000")
	w := window{budget: 10_000, share: true}
	c, err := w.fit(newConversation(messages))
	if err != nil || outline(c) != "u a r r r" || c.Cut != (Cut{Shortened: 2}) {
		t.Fatalf("sent %q %+v: %v", outline(c), c.Cut, err)
	}
	lengths := [3]int{}
	for i, m := range c.messages[2:] {
		lengths[i] = len(m.Content[0].Text)
	}
	// 10,000 tokens are 30,000 bytes; the rest has 933, which leaves half of 29,067 for each.
	if lengths[1] != 900 || lengths[0] != lengths[2] || lengths[0] > 14_533 || lengths[0] < 14_500 {
		t.Errorf("the results have %v bytes", lengths)
	}
	if text := c.messages[2].Content[0].Text; !strings.Contains(text, "of 40000 bytes, for which the context window has no room") {
		t.Errorf("nothing says that something is missing: %.200q", text[len(text)/2:])
	}
	if _, err := (window{budget: 10_000}).fit(newConversation(messages)); err == nil {
		t.Error("a run of an earlier version goes on where it failed")
	}
}

// Images cannot be shortened: a line takes the place of results that have them, the
// largest first, and only of as many as needed.
func TestImagesGiveWay(t *testing.T) {
	messages := history("u=30 a:3=3 r=30 r=30 r=30")
	for i, n := range map[int]int{2: 2, 3: 5, 4: 1} {
		for range n {
			messages[i].Content = append(messages[i].Content, Content{Type: ContentImage, MimeType: "image/png", Data: []byte("png")})
		}
	}
	c, err := window{budget: 6000, share: true}.fit(newConversation(messages)) // 8 images are 12,800
	if err != nil || outline(c) != "u a r ~ r" || c.Cut != (Cut{Elided: 1}) {
		t.Errorf("sent %q %+v: %v", outline(c), c.Cut, err)
	}
}

func TestElisionNamesWhatIsMissing(t *testing.T) {
	c, err := window{budget: 200}.fit(newConversation(history("u=30 a:1=3 r=900 a:1=3 r=30 a:1=3 r=30")))
	if err != nil {
		t.Fatal(err)
	}
	// printf 'x%.0s' $(seq 900) | sha256sum
	want := "[900 bytes left out, sha256:2309ecdd32c45f3b6a744cf99c76d203823a5a80836616b34c828d40bf623655]"
	if got := c.messages[2].Content[0].Text; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSize(t *testing.T) {
	report := func(m []Message, i int, model string, in, out int64) []Message {
		m[i].Usage, m[i].Model = &Usage{InputTokens: in, OutputTokens: out}, model
		return m
	}
	image := Message{Role: FromTool, Content: []Content{{Type: ContentImage, Data: []byte("png")}}}
	for _, c := range []struct {
		name     string
		messages []Message
		want     int64
	}{
		{"nothing was reported: a third of the bytes, rounded up", history("u=10 a=10 u=11"), (9 + 31 + 2) / 3},
		{"a report, and what came since", report(history("u=10 a=10 u=10"), 1, "m", 1000, 50), 1050 + 4},
		{"another model's report", report(history("u=10 a=10 u=11"), 1, "n", 1000, 50), (9 + 31 + 2) / 3},
		{"the last report", report(report(history("u=10 a=10 u=10 a=10 u=10"), 1, "m", 1000, 50), 3, "m", 1200, 10), 1210 + 4},
		{"an image", []Message{image}, 3 + 1600},
		// The second request must have been cut: its report tells nothing of the whole.
		{"a report on something that was cut", report(report(history("u=10 a=10 u=30000 a=10 u=10"), 1, "m", 1000, 50), 3, "m", 700, 10), 1050 + (30020+2)/3},
	} {
		got, _ := newConversation(c.messages).size(window{model: "m", budget: 5000, fixed: weight{bytes: 9}})
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A size that is asked for after every message is that of a conversation that was just
// read, and so it is when the window changes on the way.
func TestSizeAsItGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, turn := genHistory(t)
		grown := newConversation(nil)
		for i, m := range messages {
			grown.append(m)
			w := window{model: "m", budget: rapid.SampledFrom([]int64{700, 900}).Draw(t, "budget"), turn: turn}
			tokens, all := grown.size(w)
			if wantTokens, wantAll := newConversation(messages[:i+1]).size(w); tokens != wantTokens || all != wantAll {
				t.Fatalf("after %d messages: %d %v, want %d %v", i+1, tokens, all, wantTokens, wantAll)
			}
		}
	})
}

// Where a vendor counts more tokens than the bytes suggest, the rest is taken to be
// as dense.
func TestDenseTextIsCutSooner(t *testing.T) {
	messages := history("u=300 a=300 u=300 a=300 u=300")
	messages[3].Usage, messages[3].Model = &Usage{InputTokens: 1000, OutputTokens: 200}, "m"
	// By estimate 500 tokens, by report 1300: of 5 messages 3 are about 780.
	c, err := window{model: "m", budget: 1250, turn: 4}.fit(newConversation(messages))
	if err != nil || outline(c) != "u a u" || c.size != 780 {
		t.Errorf("sent %q at %d tokens: %v", outline(c), c.size, err)
	}
}

func genHistory(t *rapid.T) ([]Message, int) {
	var messages []Message
	id := 0
	size := rapid.SampledFrom([]int{0, 1, 30, 300, 900})
	exchange := func() {
		messages = append(messages, Message{Role: User, Text: strings.Repeat("u", size.Draw(t, "user"))})
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			m := Message{Role: Assistant, Text: strings.Repeat("a", size.Draw(t, "assistant"))}
			if rapid.Bool().Draw(t, "reported") {
				m.Model, m.Usage = "m", &Usage{InputTokens: rapid.Int64Range(0, 4000).Draw(t, "input")}
			}
			var results []Message
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				id++
				m.Calls = append(m.Calls, Call{ID: fmt.Sprint(id), Name: "f"})
				results = append(results, Message{Role: FromTool, CallID: fmt.Sprint(id), Content: []Content{{Type: ContentText, Text: strings.Repeat("r", size.Draw(t, "result"))}}})
			}
			messages = append(append(messages, m), results...)
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "exchanges") {
		exchange()
	}
	turn := len(messages)
	exchange()
	return messages, turn
}

// Whatever the history and the budget: nothing is orphaned, the current user
// message and the last group stay, the session is not touched, and it comes out the
// same every time.
func TestCuttingOrphansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, turn := genHistory(t)
		talk := newConversation(messages)
		before := HeadOf(messages)
		w := window{model: "m", budget: rapid.Int64Range(0, 3000).Draw(t, "budget"), turn: turn, share: rapid.Bool().Draw(t, "share")}
		c, err := w.fit(talk)
		again, _ := w.fit(newConversation(messages))
		if diff := cmp.Diff(c.messages, again.messages); diff != "" {
			t.Fatalf("cut otherwise the second time:\n%s", diff)
		}
		if after := HeadOf(talk.messages); after != before {
			t.Fatal("the session was cut")
		}
		if err != nil {
			return
		}
		sent := c.messages
		if err := Valid(sent); err != nil {
			t.Fatalf("%v: %s", err, outline(c))
		}
		if c.size > w.budget {
			t.Fatalf("%d tokens are sent, and %d fit", c.size, w.budget)
		}
		if !slices.ContainsFunc(sent, func(m Message) bool { return m.Role == User && m.Text == messages[turn].Text }) {
			t.Fatal("the user's message is gone")
		}
		if last := len(sent) - 1; !w.share && string(mustJSON(sent[last])) != string(mustJSON(messages[len(messages)-1])) {
			t.Fatal("the last message is gone")
		}
		if len(sent)+c.Dropped != len(messages) {
			t.Fatalf("%d sent, %d dropped, of %d", len(sent), c.Dropped, len(messages))
		}
	})
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// What is sent has the digest of a conversation of those messages, cut or not.
func TestWhatIsSentIsNamedByItsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, turn := genHistory(t)
		talk := newConversation(messages)
		c, err := window{model: "m", budget: rapid.Int64Range(0, 3000).Draw(t, "budget"), turn: turn}.fit(talk)
		if err != nil {
			return
		}
		if got, want := c.head, HeadOf(c.messages); got != want {
			t.Fatalf("named %s, not %s", got, want)
		}
	})
}
