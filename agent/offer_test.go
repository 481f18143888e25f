package agent

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func named(server, tool string) Tool {
	return Tool{Server: server, Name: tool, URI: "mcp://" + server + "/" + tool + "@1.0.0"}
}

func TestOfferNames(t *testing.T) {
	long := strings.Repeat("n", 128)
	tools := []Tool{
		named("files", "read"), named("files", "read.all"), named("files", "read_all"), named("a", "b__c"), named("a__b", "c"), named("files", long),
	}
	// The digits are those of: printf 'mcp://files/read_all@1.0.0' | sha256sum
	want := []string{
		"files__read", "files__read_all", "files__read_all_cfa5f23b", "a__b__c", "a__b__c_d5505151",
		"files__" + long[:48] + "_4bac7448",
	}
	for i, name := range offerNames(tools) {
		if name != want[i] {
			t.Errorf("%s/%s is offered as %q, want %q", tools[i].Server, tools[i].Name, name, want[i])
		}
	}
}

var offered = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestOfferNamesAreUniqueAndUsable(t *testing.T) {
	server := rapid.StringMatching(`[a-z_]{1,3}`)
	tool := rapid.StringMatching(`[ab_.-]{1,3}|[a_]{60,128}`)
	rapid.Check(t, func(t *rapid.T) {
		var tools []Tool
		known := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "tools") {
			if x := named(server.Draw(t, "server"), tool.Draw(t, "tool")); !known[x.URI] {
				known[x.URI] = true
				tools = append(tools, x)
			}
		}
		seen := map[string]bool{}
		for i, name := range offerNames(tools) {
			if !offered.MatchString(name) || seen[name] {
				t.Fatalf("%s is offered as %q, which is not usable or not new", tools[i].URI, name)
			}
			seen[name] = true
		}
	})
}
