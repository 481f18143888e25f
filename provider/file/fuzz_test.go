package file

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/provider/providertest"
)

// A script that is read answers every request, always alike, or says that it
// cannot; and what it answers can be sent.
func FuzzScript(f *testing.F) {
	f.Add([]byte("version: 1\nanswers:\n  - {when: {user: \"(?i)disk\", step: 2, path: \"turn/*\", offered: \"ops/*\"}, calls: [{tool: ops/df, args: {path: \"/\"}}]}\n"), uint8(4))
	f.Add([]byte("version: 1\nanswers: [{text: a, chunks: 3, usage: {input_tokens: 1}}, {error: {status: 529, mid_stream: true, after_chunks: 2}}]\n"), uint8(1))
	f.Add([]byte("version: 1\nanswers: [{calls: [{tool: x, args: {a: .inf, 1: [.nan, 2001-01-01]}}]}]\n"), uint8(1))
	f.Add([]byte("version: 1\nanswers: [{when: {result: \"%\"}, text: \"\\ud83d\", finish: length}]\n"), uint8(6))
	f.Fuzz(func(t *testing.T, src []byte, messages uint8) {
		s, err := ParseScript("s.yaml", src)
		if err != nil {
			return
		}
		r := providertest.Request(func(r *agent.Request) { r.Messages = r.Messages[:min(int(messages), len(r.Messages))] })
		a, err := s.Find(&r)
		if again, _ := s.Find(&r); a != again {
			t.Error("the same request has two answers")
		}
		if err != nil {
			if e := (*flow.Error)(nil); !errors.As(err, &e) || e.Code != CodeExhausted {
				t.Errorf("the failure is %v", err)
			}
			return
		}
		if a.Delay < 0 || a.Chunks < 0 || a.Error == nil && a.Finish == "" {
			t.Errorf("%+v", a)
		}
		for _, c := range a.Calls {
			if isText := c.Args != nil && c.Args.Kind == document.Text; c.Tool == "" || !isText && !json.Valid([]byte(c.Arguments())) {
				t.Errorf("the call %+v with %s", c, c.Arguments())
			}
		}
	})
}

// A table that is read gives every model something to go by, and to merge it with
// nothing changes nothing.
func FuzzTable(f *testing.F) {
	f.Add([]byte("version: 1\nmodels:\n  a*: {context_window: 1, max_output: 2, images: true, sampling: false}\n  ab: {price: {input: \"1\", output: \"2\", cache_read: \"0.5\"}}\n"), "abc")
	f.Add([]byte("version: 1\nmodels: {\"*\": {price: {input: \"0.000000001\", output: \"999999\"}}}\n"), "x")
	f.Fuzz(func(t *testing.T, src []byte, model string) {
		table, err := ParseTable("m.yaml", src)
		if err != nil {
			return
		}
		caps := table.Caps(model, true)
		if caps.ContextWindow <= 0 || caps.MaxOutput < 0 {
			t.Errorf("%+v", caps)
		}
		if p := caps.Price; p != nil && min(p.Input, p.Output, p.CacheRead, p.CacheWrite) < 0 {
			t.Errorf("%+v", p)
		}
		for _, merged := range []*Table{new(Table).Merge(table), table.Merge(new(Table)), table.Merge(table)} {
			if diff := cmp.Diff(caps, merged.Caps(model, true)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		}
	})
}
