package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/provider/providertest"
)

func script(t *testing.T, src string) *Script {
	t.Helper()
	s, err := ParseScript("script.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatchers(t *testing.T) {
	newTurn := func(r *agent.Request) {
		r.Messages = append(r.Messages, agent.Message{Role: agent.User, Text: "Thanks"})
	}
	for _, c := range []struct {
		when   string
		change func(*agent.Request)
		holds  bool
	}{
		{`{}`, nil, true},
		{`{purpose: turn}`, nil, true},
		{`{purpose: router}`, nil, false},
		{`{agent: ops}`, nil, true},
		{`{agent: op}`, nil, false},
		{`{path: "turn/model#2"}`, nil, true},
		{`{path: "turn/model#*"}`, nil, true},
		{`{path: "*/model#?"}`, nil, true},
		{`{path: "*"}`, nil, false}, // it does not cross the slash
		{`{path: "turn/model#3"}`, nil, false},
		{`{turn: 2}`, nil, true},
		{`{turn: 1}`, nil, false},
		{`{turn: 3}`, newTurn, true},
		{`{step: 2}`, nil, true},
		{`{step: 1}`, nil, false},
		{`{step: 1}`, newTurn, true},
		{`{attempt: 1}`, nil, true},
		{`{attempt: 2}`, nil, false},
		{`{user: "(?i)DISK"}`, nil, true},
		{`{user: "Hello"}`, nil, false}, // it is not the last
		{`{user: ""}`, nil, true},
		{`{user: ""}`, func(r *agent.Request) { r.Messages = nil }, false},
		{`{system: "^You"}`, nil, true},
		{`{system: "^I"}`, nil, false},
		{`{result: "9[0-9]%"}`, nil, true},
		{`{result: "^used:\n97%$"}`, nil, true},
		{`{result: "12%"}`, nil, false},
		{`{result: ""}`, newTurn, false}, // it belongs to the turn before
		{`{offered: "ops/*"}`, nil, true},
		{`{offered: "*/ping"}`, nil, true},
		{`{offered: "*/pong"}`, nil, false},
		{`{offered: "*/*"}`, func(r *agent.Request) { r.Tools = nil }, false},
		{`{turn: 2, step: 2, user: disk}`, nil, true},
		{`{turn: 2, step: 3, user: disk}`, nil, false},
	} {
		s := script(t, fmt.Sprintf("version: 1\nanswers:\n  - {when: %s, text: yes it does}\n", c.when))
		r := providertest.Request(c.change)
		a, err := s.Find(&r)
		if c.holds && (err != nil || a.Text != "yes it does") {
			t.Errorf("%s: %v", c.when, err)
		}
		if e := (*flow.Error)(nil); !c.holds && (!errors.As(err, &e) || e.Code != CodeExhausted) {
			t.Errorf("%s: %+v, %v", c.when, a, err)
		}
	}
}

func TestFirstMatchWinsAndPlainEntriesCountSteps(t *testing.T) {
	s := script(t, `
version: 1
answers:
  - {when: {turn: 3}, text: third turn}
  - {text: first plain}
  - {when: {agent: nobody}, text: never}
  - {text: second plain}
  - {when: {turn: 2}, text: too late}
`)
	for want, messages := range map[string]int{"first plain": 3, "second plain": 4} {
		r := providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:messages] })
		if a, err := s.Find(&r); err != nil || a.Text != want {
			t.Errorf("after %d messages: %+v, %v", messages, a, err)
		}
	}
}

func TestNearestMissIsNamed(t *testing.T) {
	s := script(t, `
version: 1
answers:
  - {when: {user: weather, step: 1, turn: 9}, text: a}
  - {when: {user: "(?i)disk", step: 3}, text: b}
  - {text: c}
`)
	r := providertest.Request(nil)
	_, err := s.Find(&r)
	var e *flow.Error
	if !errors.As(err, &e) || e.Code != CodeExhausted {
		t.Fatal(err)
	}
	for _, part := range []string{"script.yaml", "turn/model#2", "answers[1]", "step is 3, and here is 2"} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q is not in %q", part, e.Message)
		}
	}
	if e.Retry || !e.Answered {
		t.Errorf("%+v", e)
	}
	if _, err := script(t, "version: 1\nanswers: []\n").Find(&r); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("%v", err)
	}
}

func TestScriptProblemsHaveTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		script       string
		line, column int
		says         string
	}{
		{"version: 2\nanswers: []\n", 1, 10, "this version of Tipstaff reads 1"},
		{"answers: []\n", 1, 1, "version is missing"},
		{"", 1, 1, "empty"},
		{"version: 1\nansers: []\n", 2, 1, "ansers"},
		{"version: 1\nanswers:\n  - text: [\n", 3, 11, ""},
		{"version: 1\nanswers:\n  - text: a\n    chunks: -1\n", 4, 13, "answers[0].chunks: chunks is -1; it must be a whole number from 0 to 10000"},
		{"version: 1\nanswers:\n  - text: a\n    delay: 2h\n", 4, 12, "a duration from 0s to 1h"},
		{"version: 1\nanswers:\n  - when: {user: \"(\"}\n    text: a\n", 3, 18, "missing closing"},
		{"version: 1\nanswers:\n  - when: {path: \"[\"}\n    text: a\n", 3, 18, "not a pattern"},
		{"version: 1\nanswers:\n  - when: {offered: \"df\"}\n    text: a\n", 3, 21, `exactly one "/"`},
		{"version: 1\nanswers:\n  - when: {step: 0}\n    text: a\n", 3, 18, "step is 0; it must be a whole number from 1"},
		{"version: 1\nanswers:\n  - when: {stepp: 1}\n    text: a\n", 3, 12, "did you mean step?"},
		{"version: 1\nanswers:\n  - delay: 1s\n", 3, 5, "says nothing"},
		{"version: 1\nanswers:\n  - text: a\n    finish: bored\n", 4, 13, `"bored"`},
		{"version: 1\nanswers:\n  - text: a\n    finish: tool_calls\n", 4, 13, "needs calls"},
		{"version: 1\nanswers:\n  - calls: [{args: {}}]\n", 3, 13, "tool is missing"},
		{"version: 1\nanswers:\n  - text: a\n    usage: {input_tokens: -1}\n", 4, 27, "input_tokens is -1"},
		{"version: 1\nanswers:\n  - error: {message: a}\n", 3, 12, "status is missing"},
		{"version: 1\nanswers:\n  - error: {status: 200}\n", 3, 21, "from 400 to 599"},
		{"version: 1\nanswers:\n  - error: {status: 500, after_chunks: 1}\n", 3, 40, "needs mid_stream"},
		{"version: 1\nanswers:\n  - error: {status: 500, mid_stream: true, after_chunks: -1}\n", 3, 58, "from 0 to 10000"},
		{"version: 1\nanswers:\n  - error: {status: 500, retry_after: -1s}\n", 3, 39, "from 0s"},
		{"version: 1\nanswers:\n  - error: {status: 500}\n    finish: stop\n", 3, 12, "beside it"},
		{"version: 1\nanswers:\n  - &a {text: b}\n  - *a\n", 3, 5, "anchors"},
		{"version: 1\n---\nversion: 1\n", 2, 1, "one document"},
		{"# " + strings.Repeat("x", maxDocument), 1, 1, "at most 1048576 are read"},
	} {
		_, err := ParseScript("s.yaml", []byte(c.script))
		var e *tipstaff.Error
		if !errors.As(err, &e) || len(e.Problems) == 0 || e.Code != tipstaff.InvalidArgument {
			t.Errorf("%q: %v", c.script, err)
			continue
		}
		p := e.Problems[0]
		if p.Line != c.line || p.Column != c.column || p.File != "s.yaml" || !strings.Contains(p.Path+": "+p.Message, c.says) {
			t.Errorf("%.80q: %+v, want %d:%d %q", c.script, p, c.line, c.column, c.says)
		}
	}
	_, err := ParseScript("s.yaml", []byte("version: 3\nanswers:\n  - {}\n  - {chunks: -1}\n"))
	if e := (*tipstaff.Error)(nil); !errors.As(err, &e) || len(e.Problems) != 4 || !strings.Contains(e.Message, "and 3 more") {
		t.Errorf("not every problem at once: %v", err)
	}
}
