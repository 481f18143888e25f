package provider

import (
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestConfigsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		Config
		says string
	}{
		{"no provider", Config{}, `no provider ""`},
		{"an unknown one", Config{Provider: "acme"}, `"acme"`},
		{"no model", Config{Provider: Anthropic, APIKey: testKey}, "needs a model"},
		{"no key at the vendor's", Config{Provider: Anthropic, Model: "m"}, "needs an API key"},
		{"no key at the other's", Config{Provider: OpenAI, Model: "m", BaseURL: "https://eu.api.openai.com/v1"}, "needs an API key"},
		{"a key of two lines", Config{Provider: OpenAI, Model: "m", APIKey: testKey + "\n"}, "cannot stand in a header"},
		{"plain http abroad", Config{Provider: OpenAI, Model: "m", APIKey: testKey, BaseURL: "http://models.example/v1"}, "plain http"},
		{"plain http to a name like ours", Config{Provider: OpenAI, Model: "m", APIKey: testKey, BaseURL: "http://localhost.example/v1"}, "plain http"},
		{"another scheme", Config{Provider: OpenAI, Model: "m", APIKey: testKey, BaseURL: "ftp://models.example"}, "neither https nor http"},
		{"no address", Config{Provider: OpenAI, Model: "m", APIKey: testKey, BaseURL: "models.example"}, "not an address"},
		{"a password in it", Config{Provider: OpenAI, Model: "m", BaseURL: "https://me:" + testKey + "@models.example"}, "user name or password"},
		{"a query in it", Config{Provider: OpenAI, Model: "m", BaseURL: "https://models.example/?k=v"}, "query"},
		{"a cache that is none", Config{Provider: Anthropic, Model: "m", APIKey: testKey, Cache: "2h"}, `cache is "2h"`},
		{"a cache that cannot be set", Config{Provider: OpenAI, Model: "m", APIKey: testKey, Cache: CacheLong}, "no setting for its cache"},
		{"a negative window", Config{Provider: OpenAI, Model: "m", APIKey: testKey, ContextWindow: -1}, "negative"},
		{"a script for a vendor", Config{Provider: OpenAI, Model: "m", APIKey: testKey, Script: []byte("version: 1")}, "takes no script"},
		{"a key for a script", Config{Provider: Scripted, APIKey: testKey}, "takes no api_key"},
		{"no script", Config{Provider: Scripted}, "empty"},
	} {
		m, err := Open(c.Config)
		var e *tipstaff.Error
		if m != nil || !errors.As(err, &e) || e.Code != tipstaff.InvalidArgument || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		if err != nil && (strings.Contains(err.Error(), testKey) || strings.Contains(e.Hint, testKey)) {
			t.Errorf("%s: the key is in the error: %v", c.name, err)
		}
	}
}

func TestConfigsThatAreTaken(t *testing.T) {
	for _, c := range []struct {
		name string
		Config
		window int
	}{
		{"the vendor's address", Config{Provider: Anthropic, Model: "claude-opus-5", APIKey: testKey}, 1_000_000},
		{"a window of one's own", Config{Provider: Anthropic, Model: "claude-opus-5", APIKey: testKey, ContextWindow: 5000}, 5000},
		{"no key at home", Config{Provider: OpenAI, Model: "llama", BaseURL: "http://localhost:11434/v1"}, 32_768},
		{"loopback in full", Config{Provider: OpenAI, Model: "llama", BaseURL: "http://[::1]:11434/v1"}, 32_768},
		{"loopback with a zone", Config{Provider: OpenAI, Model: "llama", BaseURL: "http://[::1%25lo]:11434/v1"}, 32_768},
		{"http where it is allowed", Config{Provider: OpenAI, Model: "llama", BaseURL: "http://gpu.lan/v1", AllowHTTP: true}, 32_768},
		{"a script", Config{Provider: Scripted, Script: []byte("version: 1\nanswers: []")}, 32_768},
		{"a script with a window", Config{Provider: Scripted, Model: "demo", ContextWindow: 100, Script: []byte("version: 1\nanswers: []")}, 100},
	} {
		m, err := Open(c.Config)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := c.Model
		if want == "" {
			want = Scripted
		}
		if m.Name() != want || m.Caps().ContextWindow != c.window {
			t.Errorf("%s: %s with %+v", c.name, m.Name(), m.Caps())
		}
	}
}
