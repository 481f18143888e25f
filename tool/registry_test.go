package tool_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

func TestDigestIsOfTheDefinitionAsReceived(t *testing.T) {
	b := wireBench(t, okServer(echoTool), map[string]workspace.Tool{"echo": {}})
	d, err := b.gate.Tools.Lookup("mcp://wire/echo@1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	// Written by hand: members sorted, no blanks, the unknown ones kept.
	canonical := `{"_meta":{"k":1},"annotations":{"readOnlyHint":true},"inputSchema":{"additionalProperties":false,` +
		`"properties":{"n":{"type":"number"},"text":{"type":"string"}},"type":"object"},"name":"echo","x-unknown":{"big":1}}`
	sum := sha256.Sum256([]byte(canonical))
	if want := "sha256:" + hex.EncodeToString(sum[:]); d.Digest != want || string(d.Raw) != canonical {
		t.Errorf("got %s of %s", d.Digest, d.Raw)
	}
	if d.Class != flow.Read {
		t.Errorf("the class is %s", d.Class)
	}
}

func TestEveryMemberMovesTheDigest(t *testing.T) {
	tools := map[string]workspace.Tool{"echo": {}}
	digest := func(text string) string {
		b := wireBench(t, okServer(text), tools)
		return b.gate.Tools.Definitions()[0].Digest
	}
	original := digest(echoTool)
	for name, changed := range map[string]string{
		"description": strings.Replace(echoTool, `"name"`, `"description":"d","name"`, 1),
		"schema":      strings.Replace(echoTool, `"number"`, `"integer"`, 1),
		"annotation":  strings.Replace(echoTool, `"readOnlyHint":true`, `"readOnlyHint":true,"openWorldHint":false`, 1),
		"_meta":       strings.Replace(echoTool, `"_meta":{"k":1}`, `"_meta":{"k":2}`, 1),
		"unknown":     strings.Replace(echoTool, `"big":1`, `"big":2`, 1),
	} {
		if digest(changed) == original {
			t.Errorf("a changed %s has the same digest", name)
		}
	}
	if digest(strings.ReplaceAll(echoTool, ",", " ,\t")) != original {
		t.Error("blanks move the digest")
	}
}

func TestLookup(t *testing.T) {
	b := wireBench(t, okServer(echoTool, onceTool), map[string]workspace.Tool{"echo": {}})
	for uri, want := range map[string]string{
		"mcp://wire/act@1.0.0":   tool.CodeUnknown, // listed, not declared
		"mcp://wire/ech@1.0.0":   tool.CodeUnknown,
		"mcp://other/echo@1.0.0": tool.CodeUnknown,
		"mcp://wire/echo@1.0.1":  tool.CodePinMismatch,
	} {
		_, err := b.gate.Tools.Lookup(uri)
		wantCode(t, want, nil, err)
	}
	if _, err := b.gate.Tools.Lookup("mcp://wire/echo"); !errors.Is(err, tipstaff.ErrUnpinned) {
		t.Errorf("got %v", err)
	}
	if _, err := b.gate.Tools.Lookup("echo"); !errors.Is(err, tipstaff.ErrInvalidURI) {
		t.Errorf("got %v", err)
	}
}

func TestUnusableToolAndUnusableServer(t *testing.T) {
	broken := `{"name":"act","inputSchema":{"$ref":"#"}}`
	b := wireBench(t, okServer(echoTool, broken), map[string]workspace.Tool{"echo": {}, "act": {}})
	if _, err := b.gate.Tools.Lookup("mcp://wire/echo@1.0.0"); err != nil {
		t.Errorf("a neighbour of a broken tool: %v", err)
	}
	_, err := b.gate.Tools.Lookup("mcp://wire/act@1.0.0")
	contains(t, wantCode(t, tool.CodeUnknown, nil, err).Message, "input schema")

	b = wireBench(t, okServer(echoTool, onceTool, echoTool), map[string]workspace.Tool{"echo": {}, "act": {}})
	_, err = b.gate.Tools.Lookup("mcp://wire/act@1.0.0")
	contains(t, wantCode(t, tool.CodeUnknown, nil, err).Message, `two tools named "echo"`)
}

func TestListOfSeveralPages(t *testing.T) {
	pages := []string{
		`{"tools":[` + echoTool + `],"nextCursor":"2"}`,
		`{"tools":[` + onceTool + `]}`,
	}
	s := okServer()
	s.tools = func() string { page := pages[0]; pages = pages[1:]; return page }
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {}, "act": {}})
	if got := len(b.gate.Tools.Definitions()); got != 2 {
		t.Errorf("got %d tools", got)
	}
}

func TestFrozenToolsMeanTheSame(t *testing.T) {
	b := newBench(t, everything)
	frozen, err := b.gate.Tools.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	back, err := tool.LoadFrozen(frozen)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Freeze()
	if err != nil || !bytes.Equal(frozen, again) {
		t.Errorf("it became %s, %v", again, err)
	}
	offline := tool.NewGate(allURIs(), b.manifest, back)
	for _, call := range []tool.Request{
		{URI: uriOf("sleep"), Args: []byte(`{"duration":"1s"}`)},
		{URI: uriOf("sleep"), Args: []byte(`{"duration":1}`)},
		{URI: uriOf("exec"), Args: []byte(`{"argv":["sh"]}`)},
	} {
		live, dead := b.gate.Ask(call), offline.Ask(call)
		if live.Do != dead.Do || !bytes.Equal(live.Subject, dead.Subject) || !cmp.Equal(live.Err, dead.Err) {
			t.Errorf("%s: live %+v, frozen %+v", call.URI, live, dead)
		}
	}
}

func TestFrozenToolsThatWereAlteredAreRefused(t *testing.T) {
	b := newBench(t, everything)
	frozen, err := b.gate.Tools.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	text := string(frozen)
	for name, altered := range map[string]string{
		"definition": strings.Replace(text, "Waits for a duration", "Waits for a while", 1),
		"class":      strings.Replace(text, `"class":"once"`, `"class":"read"`, 1),
		"name":       strings.Replace(text, `"sleep":{"class"`, `"slept":{"class"`, 1),
		"member":     strings.Replace(text, `"max_result"`, `"max_results"`, 1),
		"version":    strings.Replace(text, `"version":1}`, `"version":2}`, 1),
		"timeout":    strings.Replace(text, `"timeout":"30s"`, `"timeout":"30"`, 1),
		"cut":        text[:len(text)-1],
		"longer":     text + "{}",
	} {
		if altered == text {
			t.Fatalf("%s: nothing was altered", name)
		}
		if _, err := tool.LoadFrozen([]byte(altered)); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}

func TestRegistryNeedsItsServers(t *testing.T) {
	if _, err := tool.NewRegistry(parse(t, everything), nil); err == nil {
		t.Error("a registry was made without the declared server")
	}
	s := okServer(echoTool)
	s.dial = func() error { return errors.New("no way") }
	m := &workspace.Manifest{Servers: map[string]workspace.Server{"wire": {Tools: map[string]workspace.Tool{"echo": {}}, MaxConcurrent: 1}}}
	if _, err := tool.NewRegistry(m, map[string]tool.Server{"wire": tool.MCP(s.dialIn)}); err == nil {
		t.Error("a registry was made of a server that cannot be reached")
	} else {
		contains(t, err.Error(), "no way")
	}
}
