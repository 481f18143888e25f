package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
)

const verdictSchema = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`

func TestOutputSchema(t *testing.T) {
	retries := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		answers []string
		retries *int
		want    string // the output; "": none
		code    string
		steps   int
	}{
		"valid":                    {answers: []string{`{"ok": true}`}, want: `{"ok":true}`, steps: 1},
		"in a fence":               {answers: []string{"```json\n{\"ok\": true}\n```\n"}, want: `{"ok":true}`, steps: 1},
		"in a plain fence":         {answers: []string{"```\n{\"ok\": true}```"}, want: `{"ok":true}`, steps: 1},
		"repaired":                 {answers: []string{`Sure!`, `{"ok":false}`}, want: `{"ok":false}`, steps: 2},
		"repaired after the fence": {answers: []string{"Here:\n```json\n{\"ok\":true}\n```", `{"ok":false}`}, want: `{"ok":false}`, steps: 2},
		"never":                    {answers: []string{`{"ok":1}`, `{"ok":1}`}, code: agent.CodeOutputInvalid, steps: 2},
		"two values":               {answers: []string{`{"ok":true} {"ok":true}`}, retries: retries(0), code: agent.CodeOutputInvalid, steps: 1},
		"no retries":               {answers: []string{`{"ok":1}`}, retries: retries(0), code: agent.CodeOutputInvalid, steps: 1},
		"more retries":             {answers: []string{`1`, `2`, `{"ok":true}`}, retries: retries(2), want: `{"ok":true}`, steps: 3},
		"an open fence":            {answers: []string{"```json", `{"ok":true}`}, want: `{"ok":true}`, steps: 2},
		"an unclosed fence":        {answers: []string{"```json\n{\"ok\":true}", `{"ok":true}`}, want: `{"ok":true}`, steps: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []agent.Response
			for _, a := range c.answers {
				answers = append(answers, say(a))
			}
			b := newBed(steps(answers...))
			b.cfg.OutputSchema, b.cfg.OutputRetries = json.RawMessage(verdictSchema), c.retries
			b.take(t)
			if string(b.out.JSON) != c.want || codeOf(b.err) != c.code || b.out.Steps != c.steps {
				t.Errorf("output %s, code %q, %d steps", b.out.JSON, codeOf(b.err), b.out.Steps)
			}
		})
	}
}

func TestTheModelIsToldWhatIsWrongWithItsAnswer(t *testing.T) {
	b := newBed(steps(say(`{"ok":1}`), say(`{"ok":true}`)))
	b.cfg.OutputSchema = json.RawMessage(verdictSchema)
	b.take(t)
	last := b.model.requests[1].Messages
	if m := last[len(last)-1]; m.Role != agent.User || !strings.Contains(m.Text, "/ok") {
		t.Errorf("it was told %+v", m)
	}
	if f := of[*agent.Finish](b); string(f[0].Output) != `{"ok":true}` {
		t.Errorf("finish has %s", f[0].Output)
	}
}

func TestRepairsAreSteps(t *testing.T) {
	b := newBed(steps(say(`1`), say(`{"ok":true}`)))
	b.cfg.OutputSchema, b.cfg.MaxSteps = json.RawMessage(verdictSchema), 1
	b.take(t)
	if !errors.Is(b.err, agent.ErrMaxSteps) || len(b.model.requests) != 1 {
		t.Errorf("%v after %d model calls", b.err, len(b.model.requests))
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	reason := func(r agent.Reason) agent.Response { s := say(`{"ok":`); s.Reason = r; return s }
	for code, answer := range map[string]agent.Response{
		agent.CodeOutputTruncated: reason(agent.ReasonLength),
		agent.CodeModelRefused:    reason(agent.ReasonContentFilter),
		agent.CodeEmptyResponse:   say(" \n"),
		"":                        say(`{"ok":true}`),
	} {
		b := newBed(steps(answer))
		b.cfg.OutputSchema = json.RawMessage(verdictSchema)
		b.take(t)
		if b.err != nil || codeOf(b.out.Failure()) != code || b.out.Steps != 1 {
			t.Errorf("%q: %v, counts as %q", answer.Text, b.err, codeOf(b.out.Failure()))
		}
	}
}

func TestStructuredOutputIsUsedWhereTheModelHasIt(t *testing.T) {
	for _, has := range []bool{true, false} {
		b := newBed(steps(say(`{"ok":true}`)))
		b.cfg.OutputSchema, b.cfg.Caps.StructuredOutput = json.RawMessage(verdictSchema), has
		b.take(t)
		if sent := b.model.requests[0].OutputSchema != nil; sent != has {
			t.Errorf("the model has it: %v, it is asked for it: %v", has, sent)
		}
	}
}
