package workspace_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

// TestFrozenFormStays: runs hold the digest of the manifest that they were started
// with, so that its frozen form never changes.
func TestFrozenFormStays(t *testing.T) {
	same := func(name string, m *workspace.Manifest) {
		want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want = bytes.TrimSuffix(want, []byte("\n"))
		if got := m.Frozen(); !bytes.Equal(got, want) {
			t.Errorf("%s is frozen as\n%s\nand was\n%s", name, got, want)
		}
		back, err := workspace.ParseFrozen(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := back.Frozen(); !bytes.Equal(got, want) {
			t.Errorf("%s comes back as\n%s\nand was\n%s", name, got, want)
		}
	}
	documents, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(documents) == 0 {
		t.Fatal("there are no documents: ", err)
	}
	for _, document := range documents {
		src, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		m := parseIn(t, string(src))
		name := strings.TrimSuffix(filepath.Base(document), ".yaml")
		same(name, m)
		same(name+".within", m.Within("/srv/in", true))
		same(name+".outside", m.Within("/srv/out", false))
		same(name+".dispatch", m.WithSubDispatch())
	}
	var none *workspace.Manifest
	same("none.dispatch", none.WithSubDispatch())
}

// Before openai was the word for the Responses API it stood for chat completions, and in
// what runs have frozen it still does.
func TestFrozenOpenAIMeansChatCompletions(t *testing.T) {
	const before = `models: {a: {provider: openai-chat, model: m, api_key: $env:K}}`
	chat := parseIn(t, before)
	if frozen := string(chat.Frozen()); !strings.Contains(frozen, `"provider":"openai"`) {
		t.Errorf("chat completions are frozen as %s", frozen)
	}
	old, err := workspace.ParseFrozen(chat.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := old.Model("a"); m.Provider != workspace.ProviderOpenAIChat {
		t.Errorf("they come back as %s", m.Provider)
	}
	now := parseIn(t, strings.Replace(before, "openai-chat", "openai", 1))
	frozen, err := workspace.ParseFrozen(now.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		run  *workspace.Manifest
		want string
	}{
		"an old run":   {old, workspace.ProviderOpenAIChat},
		"a new run":    {frozen, workspace.ProviderOpenAI},
		"without any":  {nil, workspace.ProviderOpenAI},
		"of no models": {parseIn(t, "servers: {}"), workspace.ProviderOpenAI},
	} {
		if m, _ := now.ForRun(c.run).Model("a"); m.Provider != c.want {
			t.Errorf("%s is driven with %s", name, m.Provider)
		}
	}
	if m, _ := now.Model("a"); m.Provider != workspace.ProviderOpenAI {
		t.Error("the manifest itself was changed")
	}
	if (*workspace.Manifest)(nil).ForRun(old) != nil {
		t.Error("a manifest out of nothing")
	}
}

func TestFrozenModels(t *testing.T) {
	m := parseIn(t, `
models:
  claude: {provider: anthropic, model: claude-x, api_key: $env:A, thinking: 4096}
  gpt: {provider: openai, model: gpt-x, api_key: $env:B, thinking: high}
  qwen: {provider: openai-chat, model: qwen-x, base_url: "http://localhost:11434/v1", thinking: off}
  flash: {provider: gemini, model: gemini-x, api_key: $env:C}
`)
	var frozen struct {
		Models json.RawMessage `json:"models"`
	}
	if err := json.Unmarshal(m.Frozen(), &frozen); err != nil {
		t.Fatal(err)
	}
	const want = `{"claude":{"api_key":"$env:A","model":"claude-x","provider":"anthropic","thinking":"4096"},` +
		`"flash":{"api_key":"$env:C","model":"gemini-x","provider":"gemini"},` +
		`"gpt":{"api_key":"$env:B","model":"gpt-x","provider":"openai-responses","thinking":"high"},` +
		`"qwen":{"base_url":"http://localhost:11434/v1","model":"qwen-x","provider":"openai","thinking":"off"}}`
	if string(frozen.Models) != want {
		t.Errorf("models are frozen as\n%s\nwant\n%s", frozen.Models, want)
	}
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil || !reflect.DeepEqual(back.Models, m.Models) {
		t.Errorf("they come back as %+v, %v", back.Models, err)
	}
}
