package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tipstaff/tipstaff"
)

// hears shows events to a terminal, or to pipes, and returns what is on standard
// output and on standard error. Events are "kind path body"; those of text are
// told, the others recorded.
func hears(t *testing.T, tty bool, events ...string) (out, err string) {
	t.Helper()
	b := newBench(t)
	if tty {
		b.terminal()
	}
	s := (&app{env: b.env, out: &output{w: b.out}, err: &output{w: b.err}}).newSpeech(nil)
	for i, text := range events {
		f := strings.SplitN(text, " ", 3)
		ev := tipstaff.Event{Seq: int64(i + 1), At: epoch, Kind: tipstaff.Kind(f[0]), Path: f[1], Body: json.RawMessage(f[2])}
		if ev.Kind.Transient() {
			ev.Seq = 0
		}
		if !json.Valid(ev.Body) {
			t.Fatalf("not JSON: %s", ev.Body)
		}
		s.take(&ev, false)
	}
	s.finish()
	return b.out.String(), b.err.String()
}

func delta(offset int, text string) string {
	return fmt.Sprintf(`agent.text_delta turn/model#1 {"step":1,"channel":"answer","offset":%d,"text":%s}`, offset, jsonOf(text))
}

func message(text string) string {
	return fmt.Sprintf(`agent.message turn/model#1 {"step":1,"text":%s,"reason":"stop","calls":0,"usage":null}`, jsonOf(text))
}

func finish(text string) string {
	return fmt.Sprintf(`agent.finish turn {"reason":"stop","text":%s,"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,"cost_usd":"0.0012"},"steps":1,"tool_calls":0}`, jsonOf(text))
}

const spent = "1 step, 15 tokens (10 in, 5 out), $0.0012\n"

func TestSpeechAtATerminal(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		out    string
		err    string // before what the turn took
	}{
		{"as it comes", []string{delta(0, "Hel"), delta(3, "lo"), message("Hello"), finish("Hello")}, "Hello\n", ""},
		{"nothing was heard", []string{message("Hello"), finish("Hello")}, "Hello\n", ""},
		{"the end was not heard", []string{delta(0, "Hel"), message("Hello"), finish("Hello")}, "Hello\n", ""},
		{"twice", []string{delta(0, "Hel"), delta(1, "ello"), delta(0+5, "!"), message("Hello!"), finish("Hello!")}, "Hello!\n", ""},
		{"a gap", []string{delta(0, "Hel"), delta(5, " world"), message("Hello world"), finish("Hello world")}, "Hel… world\n", ""},
		{"a gap, then the end not heard", []string{delta(0, "H"), delta(5, " wor"), message("Hello world"), finish("Hello world")}, "H… world\n", ""},
		{"begins anew", []string{delta(0, "Wrong"), delta(0, "Right"), message("Right"), finish("Right")}, "Wrong\nRight\n", "the answer was broken off and begins anew\n"},
		{"another text was recorded", []string{delta(0, "Wrong"), message("Right"), finish("Right")}, "Wrong\nRight\n", "what follows is the whole text\n"},
		{"ends with a line", []string{delta(0, "Hello\n"), message("Hello\n"), finish("Hello\n")}, "Hello\n", ""},
		{"nothing is said", []string{message(""), finish("")}, "", ""},
		{"escapes", []string{delta(0, "a\x1b"), delta(2, "[2Jb\r"), delta(7, "\nc\u202e"), message("a\x1b[2Jb\r\nc\u202e"), finish("x")}, "a\\u001b[2Jb\nc\\u202e\n", ""},
	} {
		out, err := hears(t, true, c.events...)
		equal(t, c.name+": stdout", out, c.out)
		equal(t, c.name+": stderr", err, c.err+spent)
	}
}

func TestSpeechInAPipe(t *testing.T) {
	out, err := hears(t, false, delta(0, "I lo"), message("I look."), delta(0, "Wro"), delta(0, "It is"), message("It is \x1b[1mfull.\r\nשלום\u200f"), finish("It is \x1b[1mfull.\r\nשלום\u200f"))
	equal(t, "stdout", out, "It is \\u001b[1mfull.\nשלום\u200f\n")
	equal(t, "stderr", err, spent)
}

func TestSpeechOfCalls(t *testing.T) {
	request := func(i int, server, tool, effect string) string {
		return fmt.Sprintf(`agent.tool_call_request turn/tool#1.%d {"step":1,"index":%d,"id":"c%d","name":"n__%s","server":%q,"tool":%q,"effect":%q}`, i, i, i, tool, server, tool, effect)
	}
	decided := func(i int, decision, by, rule string) string {
		return fmt.Sprintf(`agent.approval_decided turn/tool#1.%d {"id":"c%d","decision":%q,"by":%q,"rule":%q}`, i, i, decision, by, rule)
	}
	result := func(i int, rest string) string {
		return fmt.Sprintf(`agent.tool_call_result turn/tool#1.%d {"id":"c%d",%s}`, i, i, rest)
	}
	_, err := hears(t, false,
		request(1, "disk", "df", "read"), request(2, "disk", "rm", "once"), request(3, "", "", ""), request(4, "disk", "fsck", "once"), request(5, "disk", "df", "read"),
		decided(1, "allow", "policy", "reads"), result(1, `"is_error":false,"class":"","content":"90%","duration_ms":1200`),
		decided(2, "deny", "policy", "no-rm"), result(2, `"is_error":true,"class":"policy_denied","content":"policy_denied: rule no-rm\nsays no","duration_ms":0`),
		result(3, `"is_error":true,"class":"unknown_tool","content":"there is none","duration_ms":0`),
		`policy.gate turn/tool#1.4/approval {"gate":"g","gate_kind":"approval","question":"May it?"}`,
		`policy.gate.resolve turn/tool#1.4/approval {"gate":"g","action":"allow","via":"terminal"}`,
		result(4, `"is_error":false,"class":"","content":"","duration_ms":30`),
		decided(5, "allow", "grant", ""), result(5, `"is_error":true,"class":"tool_error","content":"\u001b[31mno","duration_ms":3`),
	)
	equal(t, "stderr", err, `✓ disk/df  read  allow by rule reads  1.2s
✗ disk/rm  once  deny by rule no-rm  policy_denied: rule no-rm
✗ n__  unknown_tool: there is none
✓ disk/fsck  once  allow by terminal  30ms
✗ disk/df  read  allow by grant  3ms  tool_error: \u001b[31mno
`)
}

func TestSpeechShowsWhatIsUnderWay(t *testing.T) {
	b := newBench(t)
	s := (&app{env: b.env, out: &output{w: b.out}, err: &output{w: b.err}}).newSpeech(nil)
	take := func(kind tipstaff.Kind, path, body string) {
		s.take(&tipstaff.Event{Seq: 1, At: epoch, Kind: kind, Path: path, Body: json.RawMessage(body)}, false)
	}
	shown := func() string {
		var all []string
		for _, l := range s.under(1000, 1000, epoch.Add(2*time.Second)) {
			all = append(all, l.text(false))
		}
		return strings.Join(all, "\n")
	}
	take("agent.step_started", "turn/model#2", `{"step":2,"model":"m-1"}`)
	equal(t, "the model", shown(), "▸ step 2  m-1  2.0s")
	take("agent.message", "turn/model#2", `{"step":2,"text":""}`)
	take("agent.tool_call_request", "turn/tool#2.1", `{"server":"disk","tool":"df","effect":"read"}`)
	equal(t, "asked for, not begun", shown(), "")
	take("effect.intended", "turn/tool#2.1", `{"name":"tool.call"}`)
	take("tool.progress", "turn/tool#2.1", `{"progress":3,"total":10}`)
	s.ahead = func() (int, string) { return 1, "and\nthen" }
	equal(t, "a call, and something typed", shown(), "▸ disk/df  read  2.0s  3 of 10\nfor the next turn: and\\nthen")
	s.ahead = func() (int, string) { return 2, "" }
	take("effect.finished", "turn/tool#2.1", `{"ms":12}`)
	equal(t, "entered ahead", shown(), "2 messages for the next turns")
	s.ahead = nil
	take("run.parked", "", `{}`)
	equal(t, "parked", shown(), "")
}

func TestSpeechTellsWhatIsLeftOut(t *testing.T) {
	_, err := hears(t, true,
		`agent.router_decided turn/router {"fallback":"the model named no toolkit"}`,
		`agent.step_started turn/model#1 {"step":1,"cut":{"elided":2,"dropped":1}}`)
	equal(t, "stderr", err, "all tools are offered: the model named no toolkit\nthe conversation is too long for the model: 1 message left out, 2 results shortened\n")
}

func TestReasoningIsNoAnswer(t *testing.T) {
	out, err := hears(t, true, `agent.text_delta turn/model#1 {"step":1,"channel":"reasoning","offset":0,"text":"hmm"}`, delta(0, "Yes."), message("Yes."))
	equal(t, "stdout", out, "Yes.\n")
	equal(t, "stderr", err, "hmm\n")
	out, err = hears(t, false, `agent.text_delta turn/model#1 {"step":1,"channel":"reasoning","offset":0,"text":"hmm"}`)
	equal(t, "in a pipe", out+err, "")
}

func TestUsageText(t *testing.T) {
	for body, want := range map[string]string{
		`{"steps":2,"tool_calls":1,"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3,"cost_usd":"0.00"}}`: "2 steps, 1 tool call, 3 tokens (1 in, 2 out)",
		`{"steps":1,"usage":{"total_tokens":1,"input_tokens":1,"cost_usd":null}}`:                                    "1 step, 1 token (1 in, 0 out), cost unknown",
		`{"steps":1,"usage":{"cost_usd":"1.20"}}`:                                                                    "1 step, $1.20",
	} {
		b := tipstaff.BodyOf[tipstaff.AgentFinish](&tipstaff.Event{Body: json.RawMessage(body)})
		equal(t, body, usageText(b.Steps, b.ToolCalls, b.Usage), want)
	}
}

// A call that was made again says so, when and why; and it took as long as somebody has
// waited for it.
func TestSpeechOfRetries(t *testing.T) {
	b := newBench(t)
	s := (&app{env: b.env, out: &output{w: b.out}, err: &output{w: b.err}}).newSpeech(nil)
	for _, e := range []struct {
		after            time.Duration
		kind, path, body string
	}{
		{0, "agent.step_started", "turn/model#1", `{"step":1,"model":"big","cut":{}}`},
		{time.Second, "effect.failed", "turn/model#1", `{"name":"model.call","attempt":1,"error":{"code":"provider_unavailable","message":"529"},"retry_at":"2026-11-15T02:30:03Z"}`},
		{5 * time.Second, "agent.tool_call_request", "turn/tool#1.1", `{"step":1,"index":1,"id":"c","name":"disk__df","server":"disk","tool":"df","effect":"read"}`},
		{5 * time.Second, "effect.intended", "turn/tool#1.1", `{"name":"tool.call","attempt":1}`},
		{6 * time.Second, "effect.failed", "turn/tool#1.1", `{"name":"tool.call","attempt":1,"error":{"code":"timeout"}}`},
		{8 * time.Second, "effect.intended", "turn/tool#1.1", `{"name":"tool.call","attempt":2}`},
		{9 * time.Second, "effect.finished", "turn/tool#1.1", `{"attempt":2,"ms":1000}`},
		{9 * time.Second, "agent.tool_call_result", "turn/tool#1.1", `{"id":"c","is_error":false,"content":"90%","duration_ms":1000}`},
	} {
		s.take(&tipstaff.Event{Seq: 1, At: epoch.Add(e.after), Kind: tipstaff.Kind(e.kind), Path: e.path, Body: json.RawMessage(e.body)}, false)
	}
	equal(t, "stderr", b.err.String(), `big is retrying in 2s: provider_unavailable: 529
disk/df is retrying: timeout
✓ disk/df  read  4.0s
`)
}

// FuzzStreamText: where a text is cut changes nothing of what is shown, and what
// is shown cannot act.
func FuzzStreamText(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "e\u0301\u0301\u0301\u0301\u0301\u0301x", "❤\ufe0f a\ufe0f", "a\r\nb\rc", "\u202etxet\t.\n", "می\u200cخواهم 👩\u200d👧\u200d\u200d", "a\u200db", "l’été\u00a0! 日\u3000本", "a\xff\xc3b"} {
		f.Add(s, uint8(1))
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, piece uint8) {
		text = strings.ToValidUTF8(text, "\ufffd")
		if len(text) > maxTail {
			return // a pile of marks that high is begun anew
		}
		var whole, parts streamText
		want := whole.clean(text)
		got, part, n := "", "", 0
		for _, r := range text {
			part += string(r)
			if n++; n > int(piece%5) {
				got += parts.clean(part)
				part, n = "", 0
			}
		}
		got += parts.clean(part)
		if got != want {
			t.Errorf("at once %q, in pieces %q", want, got)
		}
		for _, r := range want + dataText(text) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || strings.ContainsRune("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", r) {
				t.Errorf("%q acts on a terminal", r)
			}
		}
	})
}
