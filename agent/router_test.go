package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// kits are the toolkits of these tests.
var kits = []agent.Toolkit{
	{Name: "db", Description: "databases", Match: []string{"trino/*", "*/sql_*"}},
	{Name: "notes", Match: []string{"notes/*"}, Always: true},
	{Name: "second", Match: []string{"trino/*"}},
	{Name: "Disk"},
}

// shop is a catalog of which every tool has a toolkit for another reason.
func shop() *agent.Catalog {
	return &agent.Catalog{Tools: []agent.Tool{
		aTool("notes/add"),
		aTool("ops/Disk_free"), // by its name, a declared toolkit
		aTool("ops/net_ping"),  // by its name, one that nobody declared
		aTool("ops/reboot"),
		aTool("ops/sql_query"),
		aTool("ops/_hidden"),
		aTool("trino/execute"),
	}}
}

func names(uris []string) []string {
	var list []string
	for _, u := range uris {
		u, _, _ = strings.Cut(strings.TrimPrefix(u, "mcp://"), "@")
		list = append(list, u)
	}
	return list
}

// answering is a classifier whose model gives this answer.
func answering(text string) (*agent.ToolkitClassifier, *model) {
	m := &model{answer: func(agent.Request) (agent.Response, error) {
		return agent.Response{Text: text, Reason: agent.ReasonStop, Usage: &agent.Usage{TotalTokens: 7}}, nil
	}}
	return &agent.ToolkitClassifier{Model: m, Agent: "ops", Toolkits: kits}, m
}

func narrow(t *testing.T, r agent.Router, message string, c *agent.Catalog) agent.Selection {
	t.Helper()
	s, err := r.Narrow(t.Context(), message, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPassThroughKeepsTheOrder(t *testing.T) {
	s := narrow(t, agent.PassThrough{}, "hello", shop())
	want := []string{"notes/add", "ops/Disk_free", "ops/net_ping", "ops/reboot", "ops/sql_query", "ops/_hidden", "trino/execute"}
	if diff := cmp.Diff(want, names(s.Tools)); diff != "" || s.Fallback != "" || s.Usage != nil {
		t.Errorf("%s%+v", diff, s)
	}
}

func TestAnswersOfTheClassifier(t *testing.T) {
	everything := []string{"notes/add", "ops/Disk_free", "ops/net_ping", "ops/reboot", "ops/sql_query", "ops/_hidden", "trino/execute"}
	for _, c := range []struct {
		name, answer string
		want         []string
		toolkits     []string
	}{
		{"an array", `["db"]`, []string{"notes/add", "ops/sql_query", "trino/execute"}, []string{"notes", "db"}},
		{"in the order of the catalog", `["db", "Disk"]`, []string{"notes/add", "ops/Disk_free", "ops/sql_query", "trino/execute"}, []string{"notes", "Disk", "db"}},
		{"in a sentence", "I choose [\"misc\"], of course [\"db\"].", []string{"notes/add", "ops/reboot", "ops/_hidden"}, []string{"notes", "misc"}},
		{"in a fence", "```json\n[\"net\"]\n```", []string{"notes/add", "ops/net_ping"}, []string{"notes", "net"}},
		{"after other arrays", `[1] [null] {"a": [["net"]]}`, []string{"notes/add", "ops/net_ping"}, []string{"notes", "net"}},
		{"any case, repeated", `["DB", "db", "dB "]`, []string{"notes/add", "ops/sql_query", "trino/execute"}, []string{"notes", "db"}},
		{"some are unknown", `["sales", "net"]`, []string{"notes/add", "ops/net_ping"}, []string{"notes", "net"}},
		{"one that is chosen anyway", `["notes"]`, []string{"notes/add"}, []string{"notes"}},
		{"commas", "net, misc", []string{"notes/add", "ops/net_ping", "ops/reboot", "ops/_hidden"}, []string{"notes", "net", "misc"}},
		{"lines with marks", "- net\n* `disk`\r\n", []string{"notes/add", "ops/Disk_free", "ops/net_ping"}, []string{"notes", "Disk", "net"}},
		{"a toolkit that is matched too late", `["second"]`, everything, nil},
		{"nothing", "", everything, nil},
		{"an empty array", "[]", everything, nil},
		{"unknown names", `["sales"]`, everything, nil},
		{"garbage", "I cannot help with that.", everything, nil},
		{"half an array", `["db", `, everything, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := answering(c.answer)
			s := narrow(t, r, "hello", shop())
			if diff := cmp.Diff(c.want, names(s.Tools)); diff != "" {
				t.Error(diff)
			}
			if c.toolkits != nil {
				if diff := cmp.Diff(c.toolkits, s.Toolkits); diff != "" || s.Fallback != "" {
					t.Errorf("%s%q", diff, s.Fallback)
				}
			} else if s.Fallback == "" || len(c.answer) > 4 && strings.Contains(s.Fallback, c.answer) {
				t.Errorf("it says %q", s.Fallback)
			}
			if s.Usage == nil || s.Usage.TotalTokens != 7 {
				t.Errorf("the usage is %+v", s.Usage)
			}
		})
	}
}

func TestHalfAnAnswerChoosesNothing(t *testing.T) {
	for answer, all := range map[string]bool{`["net", "db`: true, "net, db, mi": true, `["net"] because`: false} {
		m := &model{answer: func(agent.Request) (agent.Response, error) {
			return agent.Response{Text: answer, Reason: agent.ReasonLength}, nil
		}}
		s := narrow(t, &agent.ToolkitClassifier{Model: m, Toolkits: kits}, "hello", shop())
		if (s.Fallback != "") != all || (len(s.Tools) == len(shop().Tools)) != all {
			t.Errorf("%q chooses %+v", answer, s)
		}
	}
}

func TestWhatTheClassifierAsks(t *testing.T) {
	r, m := answering(`["db"]`)
	narrow(t, r, "how full is the disk?", shop())
	if len(m.requests) != 1 {
		t.Fatalf("%d requests", len(m.requests))
	}
	q := m.requests[0]
	if q.Purpose != agent.PurposeRouter || q.Tools != nil || q.Temperature == nil || *q.Temperature != 0 || q.MaxOutputTokens != 256 || q.Agent != "ops" {
		t.Errorf("got %+v", q)
	}
	if diff := cmp.Diff([]agent.Message{{Role: agent.User, Text: "how full is the disk?"}}, q.Messages); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"- notes (always included)\n  tools: add\n", "- Disk\n  tools: Disk_free\n", "- misc\n  tools: reboot, _hidden\n", "- db: databases\n  tools: sql_query, execute\n"} {
		if !strings.Contains(q.System, want) {
			t.Errorf("%q is missing in\n%s", want, q.System)
		}
	}
	if strings.Contains(q.System, "second") {
		t.Error("a toolkit without tools is listed")
	}
}

func TestALongMessageIsShownInPart(t *testing.T) {
	r, m := answering(`["db"]`)
	narrow(t, r, "BEGIN"+strings.Repeat("é", 1<<19)+"END", shop())
	shown := m.requests[0].Messages[0].Text
	if len(shown) > 17<<10 || !strings.HasPrefix(shown, "BEGIN") || !strings.HasSuffix(shown, "END") || strings.ContainsRune(shown, '\uFFFD') {
		t.Errorf("%d bytes, %.20q", len(shown), shown)
	}
}

func TestNobodyIsAskedWithoutAChoice(t *testing.T) {
	always := []agent.Toolkit{{Name: "a", Match: []string{"x/*"}, Always: true}, {Name: "b", Match: []string{"y/*"}, Always: true}}
	for name, c := range map[string]struct {
		toolkits []agent.Toolkit
		tools    []agent.Tool
	}{
		"no tools":      {kits, nil},
		"one toolkit":   {kits, []agent.Tool{aTool("trino/a"), aTool("trino/b")}},
		"always chosen": {always, []agent.Tool{aTool("x/a"), aTool("y/b")}},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := answering("[]")
			r.Toolkits = c.toolkits
			s := narrow(t, r, "hello", &agent.Catalog{Tools: c.tools})
			if len(m.requests) != 0 || len(s.Tools) != len(c.tools) || s.Fallback != "" || s.Usage != nil {
				t.Errorf("%d requests, %+v", len(m.requests), s)
			}
		})
	}
}

func TestToolkitsOfTipstaff(t *testing.T) {
	m := &model{answer: func(agent.Request) (agent.Response, error) { return say(`["files"]`), nil }}
	c := &agent.Catalog{Tools: []agent.Tool{aTool("builtin/exec"), aTool("builtin/http_get"), aTool("builtin/read_file"), aTool("builtin/write_file")}}
	s := narrow(t, &agent.ToolkitClassifier{Model: m}, "hello", c)
	if diff := cmp.Diff([]string{"builtin/read_file", "builtin/write_file"}, names(s.Tools)); diff != "" {
		t.Error(diff)
	}
}

func TestAFaultyClassifierIsAnError(t *testing.T) {
	for name, change := range map[string]func(*agent.ToolkitClassifier){
		"pattern": func(r *agent.ToolkitClassifier) {
			r.Toolkits = []agent.Toolkit{{Name: "a", Match: []string{"nothing"}}}
		},
		"prompt": func(r *agent.ToolkitClassifier) { r.Prompt = "{{.Nothing}}" },
	} {
		r, m := answering("[]")
		change(r)
		_, err := r.Narrow(t.Context(), "hello", shop())
		if codeOf(err) != string(agent.ConfigInvalid) || len(m.requests) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// stuck is a model that answers when its context ends.
type stuck struct{ model }

func (*stuck) Stream(ctx context.Context, _ agent.Request, _ func(agent.Delta)) (agent.Response, error) {
	<-ctx.Done()
	return agent.Response{}, &flow.Error{Code: "timeout", Message: "the vendor is silent", Retry: true}
}

func TestAModelThatFailsGivesEverything(t *testing.T) {
	m := &model{answer: func(agent.Request) (agent.Response, error) {
		return agent.Response{Text: "[", Usage: &agent.Usage{TotalTokens: 3}}, &flow.Error{Code: "rate_limited", Message: "later", Retry: true}
	}}
	s := narrow(t, &agent.ToolkitClassifier{Model: m, Toolkits: kits}, "hello", shop())
	if len(s.Tools) != len(shop().Tools) || !strings.Contains(s.Fallback, "rate_limited") || s.Usage.TotalTokens != 3 || len(m.requests) != 1 {
		t.Errorf("%+v after %d requests", s, len(m.requests))
	}
}

func TestASilentModelGivesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := narrow(t, &agent.ToolkitClassifier{Model: &stuck{}, Toolkits: kits}, "hello", shop())
		if len(s.Tools) != len(shop().Tools) || !strings.Contains(s.Fallback, "30s") || time.Since(began) != 30*time.Second {
			t.Errorf("%+v after %s", s, time.Since(began))
		}
	})
}

func TestCancellingTheRouterIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		s, err := (&agent.ToolkitClassifier{Model: &stuck{}, Toolkits: kits}).Narrow(ctx, "hello", shop())
		if !errors.Is(err, gone) || s.Tools != nil {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestTheActivityNarrowsTheCatalogOfItsTurn(t *testing.T) {
	r, m := answering(`["db"]`)
	act := agent.RouterCall(r)
	attempt := flow.Attempt{Name: agent.RouterActivity, Path: "turn/router", N: 2, Input: []byte(`{"message":"hello"}`), Local: &agent.Local{Catalog: shop()}}
	done, err := act.Run(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tools":["mcp://notes/add@1.0.0","mcp://ops/sql_query@1.0.0","mcp://trino/execute@1.0.0"],"toolkits":["notes","db"],"fallback":"",` +
		`"usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":7,"cost_usd":null}}`
	if string(done.Value) != want {
		t.Errorf("the value is %s", done.Value)
	}
	if diff := cmp.Diff(flow.Use{"model_calls": 1, "tokens": 7}, done.Use); diff != "" {
		t.Error(diff)
	}
	if q := m.requests[0]; q.Path != "turn/router" || q.Attempt != 2 {
		t.Errorf("the request has path %q and attempt %d", q.Path, q.Attempt)
	}
	attempt.Input = []byte("[")
	if _, err := act.Run(t.Context(), attempt); err == nil {
		t.Error("an input that is none was used")
	}
}

// TestATurnOffersWhatTheClassifierChose: its text is in no event and no session.
func TestATurnOffersWhatTheClassifierChose(t *testing.T) {
	const secret = `Surely ["db"], I would think.`
	b := newBed(func(r agent.Request) (agent.Response, error) {
		if r.Purpose == agent.PurposeRouter {
			return agent.Response{Text: secret, Reason: agent.ReasonStop, Usage: &agent.Usage{InputTokens: 90, OutputTokens: 10, TotalTokens: 100}}, nil
		}
		return steps(call("ops__sql_query", "{}"), say("Done."))(r)
	}, shop().Tools...)
	b.cfg.Settings.Router, b.cfg.Toolkits = agent.RouterToolkits, kits
	b.cfg.Router = &agent.ToolkitClassifier{Model: b.model, Toolkits: kits}
	b.take(t)
	var asked int
	for _, r := range b.model.requests {
		if r.Purpose == agent.PurposeRouter {
			asked++
			continue
		}
		var offered []string
		for _, o := range r.Tools {
			offered = append(offered, o.Tool)
		}
		if diff := cmp.Diff([]string{"notes/add", "ops/sql_query", "trino/execute"}, offered); diff != "" {
			t.Error(diff)
		}
	}
	if asked != 1 || len(b.model.requests) != 3 {
		t.Errorf("%d of %d requests are the router's", asked, len(b.model.requests))
	}
	decided := of[*agent.RouterDecided](b)
	if len(decided) != 1 || decided[0].Tools != 3 || !slices.Equal(decided[0].Toolkits, []string{"notes", "db"}) || decided[0].Usage.TotalTokens != 100 {
		t.Errorf("%+v", decided)
	}
	if b.out.Usage.TotalTokens != 100 {
		t.Errorf("the turn used %+v", b.out.Usage)
	}
	for what, text := range map[string]string{"an event": b.transcript(), "the session": string(flow.JSON(b.out.Messages))} {
		if strings.Contains(text, "Surely") {
			t.Errorf("%s has the classifier's text", what)
		}
	}
}

// TestSelections: whatever a model answers, a selection is a part of the catalog in
// its order, never empty, has what is always chosen, and comes out the same again.
func TestSelections(t *testing.T) {
	servers := rapid.SampledFrom([]string{"notes", "ops", "trino"})
	short := rapid.StringMatching(`[a-z]{0,2}_?[a-z]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			return servers.Draw(t, "server") + "/" + short.Draw(t, "tool")
		}), 1, 12, rapid.ID[string]).Draw(t, "tools")
		slices.Sort(full)
		c := &agent.Catalog{}
		for _, name := range full {
			c.Tools = append(c.Tools, aTool(name))
		}
		answer := rapid.OneOf(rapid.String(), rapid.StringMatching(`\["(db|notes|Disk|misc|a)"(, ?"(db|a|b)")*\]?`)).Draw(t, "answer")
		r, _ := answering(answer)
		s, err := r.Narrow(context.Background(), "hello", c)
		if err != nil {
			t.Fatal(err)
		}
		got := names(s.Tools)
		if len(got) == 0 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%q of %q", got, full)
		}
		for _, name := range full {
			if strings.HasPrefix(name, "notes/") && !slices.Contains(got, name) {
				t.Fatalf("%s is missing in %q", name, got)
			}
		}
		if s.Fallback != "" && len(got) != len(full) {
			t.Fatalf("the fallback has %q of %q", got, full)
		}
		again, _ := r.Narrow(context.Background(), "hello", c)
		if diff := cmp.Diff(s, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzRouterAnswer: no answer ends the process or brings a tool that the catalog
// does not have.
func FuzzRouterAnswer(f *testing.F) {
	for _, answer := range []string{`["db"]`, "db, misc", "[[[[", `["a","b`, "- `net`\n", `[null]["db"]`, "\xff,db"} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		r, _ := answering(answer)
		s := narrow(t, r, "hello", shop())
		known := narrow(t, agent.PassThrough{}, "hello", shop()).Tools
		for _, u := range s.Tools {
			if !slices.Contains(known, u) {
				t.Errorf("%q brings %s", answer, u)
			}
		}
		if len(s.Tools) == 0 || s.Fallback != "" && len(s.Tools) != len(known) {
			t.Errorf("%q brings %+v", answer, s)
		}
	})
}

func TestToolkitsComeWithTipstaff(t *testing.T) {
	if len(agent.DefaultToolkits()) == 0 {
		t.Error("there are none")
	}
}
