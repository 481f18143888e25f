package provider

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func mustTable(t *testing.T, src string) *Table {
	t.Helper()
	parsed, err := ParseTable("models.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestDefaultTable(t *testing.T) {
	d := DefaultTable()
	if d.Date == "" {
		t.Error("it has no date")
	}
	var names struct{ Models map[string]any }
	if err := yaml.Unmarshal(modelsYAML, &names); err != nil {
		t.Fatal(err)
	}
	for id := range names.Models {
		caps, long := d.Caps(strings.TrimSuffix(id, "*"), false), d.Caps(strings.TrimSuffix(id, "*"), true)
		if caps.ContextWindow <= caps.MaxOutput || caps.MaxOutput == 0 {
			t.Errorf("%s: %+v", id, caps)
		}
		if p := caps.Price; p != nil && (p.Output <= p.Input || p.CacheRead > p.Input || p.CacheWrite < p.Input || long.Price.CacheWrite < p.CacheWrite) {
			t.Errorf("%s has odd prices: %+v", id, p)
		}
	}
	if n := len(names.Models); n < 20 {
		t.Errorf("it has %d models", n)
	}
}

func TestOverriddenPricesAndRounding(t *testing.T) {
	over := mustTable(t, `
version: 1
models:
  claude-sonnet-4-5: {price: {input: "0.000000001", output: "0.000000001"}}
`)
	s := serve(t, events(claude.text(`"a"`))) // 25 and 15 tokens: 40 × 10⁻¹⁵ USD
	h := ask(t, claude.openWith(t, s, func(c *Config) { c.Prices = DefaultTable().Merge(over) }), hello)
	if h.err != nil || h.Usage.CostUSD == nil || *h.Usage.CostUSD != 1 {
		t.Errorf("%+v, %v", h.Usage, h.err)
	}
	s = serve(t, events(claude.text(`"a"`)))
	h = ask(t, claude.openWith(t, s, func(c *Config) { c.Prices = &Table{} }), hello)
	if h.err != nil || h.Usage.CostUSD != nil {
		t.Errorf("without a price: %+v, %v", h.Usage, h.err)
	}
}

// Whoever has a vendor's key and nothing else gets a model that calls tools at a price
// that is known.
func TestDefaultModelsOfVendors(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Vendors() {
		m, err := Open(Config{Provider: v.Provider, Model: v.Model, APIKey: testKey})
		if err != nil {
			t.Errorf("%s: %v", v.Provider, err)
			continue
		}
		if caps := m.Caps(); caps.Price == nil || caps.MaxOutput == 0 || !caps.Images {
			t.Errorf("the table does not know %s: %+v", v.Model, caps)
		}
		for _, key := range v.Keys {
			if seen[key] || !strings.HasSuffix(key, "_API_KEY") {
				t.Errorf("%s: the variable %s", v.Provider, key)
			}
			seen[key] = true
		}
	}
	for _, key := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} {
		if !seen[key] {
			t.Errorf("nobody looks for %s", key)
		}
	}
}
