package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// literals are the strings of a Go file that match.
func literals(t *testing.T, file string, of *regexp.Regexp) (found []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && of.MatchString(s) {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// namedRow is a row of a table whose first cell is one name, with or without dots.
var namedRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func TestTelemetryIsListed(t *testing.T) {
	for _, c := range []struct{ heading, file, of string }{
		{"## Counters", "../telemetry/metrics.go", `^tipstaff_[a-z_]+$`},
		{"## Of a server", "../cmd/tipstaff/metrics.go", `^tipstaff_[a-z_]+$`},
		{"## Spans", "../telemetry/spans.go", `^tipstaff\.[a-z.]+$`},
	} {
		of := regexp.MustCompile(c.of)
		var listed []string
		for _, row := range namedRow.FindAllStringSubmatch(section(t, "telemetry.md", c.heading), -1) {
			if of.MatchString(row[1]) {
				listed = append(listed, row[1])
			}
		}
		real := literals(t, c.file, of)
		slices.Sort(listed)
		slices.Sort(real)
		if len(real) == 0 || !slices.Equal(listed, real) {
			t.Errorf("telemetry.md lists under %q\n%v, there are\n%v", c.heading, listed, real)
		}
	}
	page := readPage(t, "telemetry.md")
	for _, name := range constants(t, "../telemetry", regexp.MustCompile(`^(log|metrics)Variable$`)) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("telemetry.md does not mention %s", name)
		}
	}
}
