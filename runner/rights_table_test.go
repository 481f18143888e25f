package runner_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

var update = flag.Bool("update", false, "write the table of rights into docs/security.md anew")

// The table of docs/security.md is made of what the tests of rights try: the methods of
// [guarded] and the ways of [ways].
func TestTheTableOfRightsIsThatOfTheCode(t *testing.T) {
	const begin, end = "<!-- rights: made by go test ./runner -run TableOfRights -update -->\n", "<!-- end of rights -->\n"
	page := filepath.Join("..", "docs", "security.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table of rights between %q and %q", page, begin, end)
	}
	want := rightsTable()
	switch {
	case table == want:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of rights is not that of the code; make it anew, and read it:\n%s", want)
	}
}

// What callers get.
const (
	cellNo   = "no"
	cellYes  = "yes"
	cellAsks = "asks"
)

func rightsTable() string {
	var b strings.Builder
	row := func(what string, cell func(someone) string) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, who := range someones {
			fmt.Fprintf(&b, " %s |", cell(who))
		}
		b.WriteByte('\n')
	}
	row("", func(who someone) string { return columns[who.name] })
	row("---", func(someone) string { return "---" })
	calls := guarded(nil, "")
	methods := map[string][]string{tipstaff.ScopeRead: {"List", "Inbox", "Threads", "Validate"}}
	documents := map[string]bool{}
	for _, w := range ways {
		method, _, _ := strings.Cut(w.brings, ".")
		documents[method] = true
	}
	for name, call := range calls {
		if !documents[name] {
			methods[call.scope] = append(methods[call.scope], name)
		}
	}
	for _, scope := range tipstaff.Scopes() {
		if names := methods[scope]; names != nil {
			slices.Sort(names)
			row("`"+strings.Join(names, "` `")+"`", func(who someone) string {
				return yesNo(who.on == "cli" || who.name == "admin" || slices.Contains(who.scopes, scope))
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		w := ways[name]
		row(name, func(who someone) string {
			switch {
			case !who.runs() || w.own && !who.submits:
				return cellNo
			case who.may || w.served:
				return cellYes
			}
			return cellAsks
		})
	}
	return b.String()
}

func yesNo(may bool) string {
	if may {
		return cellYes
	}
	return cellNo
}

// columns are how the page names those who come.
var columns = map[string]string{
	"read": "token: `read`", "run": "`read run`", "submit": "`read run submit`", "decide": "`read run submit decide`", "admin": "`admin`",
	"stdio": "`tipstaff mcp`", "stdio with decide": "`tipstaff mcp --decide`", "cli": "command line",
}
