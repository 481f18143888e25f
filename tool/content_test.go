package tool_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// contentOf is a call that asks for content, to a server that answers so.
func contentOf(t testing.TB, reply string) (json.RawMessage, error) {
	t.Helper()
	s := okServer(echoTool, outTool)
	s.reply = func(w *wireCall) { w.result(reply) }
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}, "out": {MaxResult: 1000}})
	name := "echo"
	if strings.Contains(reply, `"n"`) {
		name = "out"
	}
	return b.try(context.Background(), flow.Attempt{Class: flow.Read, Input: flow.JSON(tool.Input{URI: "mcp://wire/" + name + "@1.0.0", Args: json.RawMessage(`{}`), Content: true})})
}

func TestReplyBecomesContent(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("png"))
	const digest = "sha256:8f8cbb7dcf46e0bc7d53265749a6c17d116093a6ba95e442764060c76fd4a86c" // of png
	for _, c := range []struct{ name, reply, want string }{
		{"nothing", `{}`, `{"content":[]}`},
		{"texts stay apart", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		{"structured too", `{"content":[{"type":"text","text":"x"}],"structuredContent":{ "n": 1 }}`, `{"content":[{"type":"text","text":"x"}],"structured":{"n":1}}`},
		{"image", `{"content":[{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`, `{"content":[{"type":"image","mime_type":"image/png","data":"` + png + `"}]}`},
		{"audio", `{"content":[{"type":"audio","mimeType":"audio/x","data":"` + png + `"}]}`, `{"content":[{"type":"audio","mime_type":"audio/x","digest":"` + digest + `","size":3}]}`},
		{"embedded bytes", `{"content":[{"type":"resource","resource":{"uri":"x:y","mimeType":"a/b","blob":"` + png + `"}}]}`, `{"content":[{"type":"resource","mime_type":"a/b","digest":"` + digest + `","size":3}]}`},
		{"embedded text", `{"content":[{"type":"resource","resource":{"uri":"x:y","mimeType":"text/x","text":"words"}}]}`, `{"content":[{"type":"text","text":"words","mime_type":"text/x"}]}`},
		{"link", `{"content":[{"type":"resource_link","name":"log","uri":"file:///log"}]}`, `{"content":[{"type":"text","text":"log file:///log"}]}`},
		{"link of a kind", `{"content":[{"type":"resource_link","name":"log","uri":"file:///log","mimeType":"a/b"}]}`, `{"content":[{"type":"text","text":"log file:///log (a/b)","mime_type":"a/b"}]}`},
	} {
		value, err := contentOf(t, c.reply)
		if err != nil || string(value) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, value, err, c.want)
		}
		var back tool.Reply
		if err := json.Unmarshal(value, &back); err != nil || string(flow.JSON(back)) != c.want {
			t.Errorf("%s: read back it is %s, %v", c.name, flow.JSON(back), err)
		}
	}
}

// Images and other media of a reply are stored once each; the outcome of the call names
// them by their digests, also one that failed.
func TestMediaAreKept(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("png"))
	const digest = "sha256:8f8cbb7dcf46e0bc7d53265749a6c17d116093a6ba95e442764060c76fd4a86c" // of png
	image := `{"type":"image","mimeType":"image/png","data":"` + png + `"}`
	shown := `{"type":"image","mime_type":"image/png","digest":"` + digest + `","size":3,"kept":true}`
	told := `{"type":"image","mime_type":"image/png","digest":"` + digest + `","size":3}`
	for _, c := range []struct {
		name, content, want string
		failed              bool
		as                  tool.Input
	}{
		{"for a model", image + "," + image, `{"content":[` + shown + "," + shown + `]}`, false, tool.Input{Content: true}},
		{"an image as a resource", `{"type":"resource","resource":{"uri":"x:y","mimeType":"image/png","blob":"` + png + `"}}`, `{"content":[` + shown + `]}`, false, tool.Input{Content: true}},
		{"for a plan", image, `{"blobs":[` + told + `],"text":""}`, false, tool.Input{}},
		{"of a failure", image, `{"content":[` + shown + `]}`, true, tool.Input{Content: true}},
	} {
		s := okServer(echoTool)
		s.reply = func(w *wireCall) { w.result(fmt.Sprintf(`{"isError":%v,"content":[%s]}`, c.failed, c.content)) }
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		var stored []string
		b.manager.Keep = func(_ context.Context, data []byte) (string, error) {
			stored = append(stored, string(data))
			return flow.Digest(data), nil
		}
		c.as.URI, c.as.Args = "mcp://wire/echo@1.0.0", json.RawMessage(`{}`)
		done, err := b.activity.Run(context.Background(), flow.Attempt{Class: flow.Read, Input: flow.JSON(c.as)})
		got := string(done.Value)
		var failed *flow.Error
		if errors.As(err, &failed) {
			got = string(failed.Detail)
		}
		if got != c.want || (err != nil) != c.failed {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
		if len(stored) != 1 || stored[0] != "png" || len(done.Keep) != 1 || done.Keep[0] != digest {
			t.Errorf("%s: %q was stored, and %v named", c.name, stored, done.Keep)
		}
	}
}

func TestContentThatCannotBeUsed(t *testing.T) {
	for reply, code := range map[string]string{
		`{"content":[],"structuredContent":{"n":"1"}}`:                                    tool.CodeOutputInvalid,
		`{"content":[{"type":"image","data":"%%"}]}`:                                      tool.CodeOutputInvalid,
		fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, strings.Repeat("x", 2000)): flow.CodeResultTooLarge,
		`{"content":[{"type":"image","data":"` + strings.Repeat("AAAA", 500) + `"}]}`:     flow.CodeResultTooLarge,
		`{"resultType":"input_required"}`:                                                 tool.CodeToolError,
	} {
		value, err := contentOf(t, reply)
		if e := wantCode(t, code, value, err); !e.Answered {
			t.Errorf("%.60s: %+v", reply, e)
		}
	}
}

func TestFailureOfAContentCallKeepsItsContent(t *testing.T) {
	for reply, want := range map[string]string{
		`{"isError":true,"content":[{"type":"text","text":"no such row"}],"structuredContent":{"row":7}}`: `{"content":[{"type":"text","text":"no such row"}],"structured":{"row":7}}`,
		`{"isError":true,"content":[]}`: `{"content":[]}`,
	} {
		value, err := contentOf(t, reply)
		if e := wantCode(t, tool.CodeToolError, value, err); string(e.Detail) != want || !e.Answered {
			t.Errorf("got %+v, %s; want %s", e, e.Detail, want)
		}
	}
}

func TestContentExcludesParse(t *testing.T) {
	b := wireBench(t, okServer(echoTool), map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	value, err := b.try(context.Background(), flow.Attempt{Class: flow.Read,
		Input: flow.JSON(tool.Input{URI: "mcp://wire/echo@1.0.0", Args: json.RawMessage(`{}`), Content: true, Parse: tool.ParseJSON})})
	wantCode(t, tool.CodeInvalidArguments, value, err)
}

func TestResultGivenByAPersonHasTheShapeOfTheTools(t *testing.T) {
	g, err := tool.NewGateFor([]tool.Entry{
		{URI: "mcp://a/out@1.0.0", Server: "a", Name: "out", Version: "1.0.0", Raw: json.RawMessage(outTool)},
		{URI: "mcp://a/echo@1.0.0", Server: "a", Name: "echo", Version: "1.0.0", Raw: json.RawMessage(echoTool)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		input tool.Input
		value string
		ok    bool
	}{
		{"out", tool.Input{}, `{"n":1}`, true},
		{"out", tool.Input{}, `{"n":"1"}`, false},
		{"out", tool.Input{Parse: tool.ParseJSON}, `[7]`, true},
		{"echo", tool.Input{}, `"anything"`, true},
		{"echo", tool.Input{Content: true}, `"anything"`, false},
		{"echo", tool.Input{Content: true}, `{}`, false},
		{"echo", tool.Input{Content: true}, `{"content":[{"type":"image","mime_type":"image/png","digest":"sha256:00","size":9,"kept":true}]}`, false},
		{"echo", tool.Input{Content: true}, `{"content":[{"type":"text","text":"x"}]}`, true},
		{"echo", tool.Input{Content: true}, `{"content":[{"type":"text","txt":"x"}]}`, false},
		{"out", tool.Input{Content: true}, `{"content":[]}`, true},
		{"out", tool.Input{Content: true}, `{"content":[],"structured":{"n":1}}`, true},
		{"out", tool.Input{Content: true}, `{"content":[],"structured":{"n":"1"}}`, false},
	} {
		d, err := g.Tools.Lookup("mcp://a/" + c.name + "@1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.input.CheckResult(d, json.RawMessage(c.value)); (err == nil) != c.ok {
			t.Errorf("%s %+v %s: %v", c.name, c.input, c.value, err)
		}
	}
}
