package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// What a page lists is complete, and nothing on it is made up: these tests
// compare the lists with the code.

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// constants are the string constants of a package whose names match.
func constants(t *testing.T, dir string, named *regexp.Regexp) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				values = append(values, constantsOf(g, named)...)
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constant that matches %s", dir, named)
	}
	return values
}

func constantsOf(g *ast.GenDecl, named *regexp.Regexp) []string {
	var values []string
	for _, spec := range g.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if i >= len(v.Values) || !named.MatchString(name.Name) {
				continue
			}
			if literal, ok := v.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					values = append(values, value)
				}
			}
		}
	}
	return values
}

// walkerCodes cannot be met with the command: its walker has tools and never
// starts child runs.
var walkerCodes = []string{"not_implemented"}

func TestPlanCodesAreListed(t *testing.T) {
	page := readPage(t, "plans.md")
	codes := constants(t, "../plan", regexp.MustCompile(`^([cC]ode|Reason)[A-Z]`))
	for _, code := range append(codes, constants(t, "../document", regexp.MustCompile(`^Code[A-Z]`))...) {
		if !slices.Contains(walkerCodes, code) && !strings.Contains(page, "`"+code+"`") {
			t.Errorf("plans.md does not mention %s", code)
		}
	}
	for _, bound := range tipstaff.BoundNames() {
		if !strings.Contains(page, "`"+bound+"`") {
			t.Errorf("plans.md does not mention the bound %s", bound)
		}
	}
}

func TestPlanProblemsAreReal(t *testing.T) {
	known := append(constants(t, "../plan", regexp.MustCompile(`^[cC]ode[A-Z]`)), constants(t, "../document", regexp.MustCompile(`^Code[A-Z]`))...)
	for _, code := range firstColumn(section(t, "plans.md", "## Problems")) {
		if !slices.Contains(known, code) {
			t.Errorf("plans.md lists %s, which neither plan nor document has", code)
		}
	}
}

func TestMaterialityRulesAreListed(t *testing.T) {
	real := constants(t, "../policy", regexp.MustCompile(`^Rule[A-Z]`))
	listed := firstColumn(section(t, "plans.md", "## Materiality"))
	if len(listed) < len(real) || !slices.Equal(listed[:len(real)], real) { // further tables follow
		t.Errorf("plans.md lists %v, the rules are %v", listed, real)
	}
}

func TestSkillCodesAreListed(t *testing.T) {
	listed := firstColumn(section(t, "skills.md", "## Problems"))
	real := append(constants(t, "../skill", regexp.MustCompile(`^[cC]ode[A-Z]`)), constants(t, "../runner", regexp.MustCompile(`^codeSkill[A-Z]`))...)
	for _, code := range constants(t, "../document", regexp.MustCompile(`^Code[A-Z]`)) {
		if code != "kind_unknown" && code != "range" { // a skill has no kind, and no number in it has a range
			real = append(real, code)
		}
	}
	for _, list := range []*[]string{&listed, &real} { // one stands in both tables
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(listed, real) {
		t.Errorf("skills.md lists\n%v, there are\n%v", listed, real)
	}
}

func TestMemoryFaultsAreListed(t *testing.T) {
	listed := firstColumn(section(t, "memory.md", "## Checking"))
	real := append(constants(t, "../cortex", regexp.MustCompile(`^Fault[A-Z]`)), constants(t, "../store", regexp.MustCompile(`^fault[A-Z]`))...)
	for _, code := range real {
		if !slices.Contains(listed, code) {
			t.Errorf("memory.md does not list %s", code)
		}
	}
}

func TestMemoryRecordsAreListed(t *testing.T) {
	text := section(t, "memory.md", "## The log")
	for _, body := range []any{cortex.Remember{}, cortex.Tombstone{}, cortex.Attest{}, cortex.LearnWeights{}} {
		for _, name := range members(reflect.TypeOf(body)) {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("memory.md: %T has a member %s", body, name)
			}
		}
	}
}

func TestToolCodesAreListed(t *testing.T) {
	page := readPage(t, "tools.md")
	for _, code := range constants(t, "../tool", regexp.MustCompile(`^(Code|Problem)[A-Z]`)) {
		if !strings.Contains(page, "`"+code+"`") {
			t.Errorf("tools.md does not mention %s", code)
		}
	}
}

func TestBuiltinToolsAreListed(t *testing.T) {
	listed := firstColumn(section(t, "tools.md", "## The built-in server"))
	real := builtin.Tools()
	slices.Sort(listed)
	slices.Sort(real)
	if !slices.Equal(listed, real) {
		t.Errorf("tools.md lists %v, the server has %v", listed, real)
	}
}

func TestErrorCodesAreListed(t *testing.T) {
	listed := firstColumn(section(t, "commands.md", "## Error codes"))
	var real []string
	for _, e := range errorCodes(t) {
		real = append(real, string(e))
	}
	slices.Sort(listed)
	slices.Sort(real)
	if !slices.Equal(listed, real) {
		t.Errorf("commands.md lists\n%v, there are\n%v", listed, real)
	}
}

// errorCodes are the constants of type Code in the root package.
func errorCodes(t *testing.T) []tipstaff.Code {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []tipstaff.Code
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, value := range constantsOf(g, regexp.MustCompile(`.`)) {
				codes = append(codes, tipstaff.Code(value))
			}
		}
	}
	return codes
}

// helpFlag is a flag as --help lists it.
var helpFlag = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z-]+)`)

// helpCommand is a command as --help lists it.
var helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)

func help(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(binDir, "tipstaff"), append(args, "--help")...)
	command.Dir = t.TempDir()
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestCommandsAndFlagsAreListed(t *testing.T) {
	page := readPage(t, "commands.md")
	_, after, _ := strings.Cut(help(t), "Available Commands:")
	commands, _, _ := strings.Cut(after, "Flags:")
	found := helpCommand.FindAllStringSubmatch(commands, -1)
	if len(found) < 10 {
		t.Fatalf("only %d commands in the help", len(found))
	}
	for _, f := range found {
		name := f[1]
		if name == "help" || name == "completion" { // the library's own
			continue
		}
		text := section(t, "commands.md", "## "+name)
		for _, flag := range helpFlag.FindAllStringSubmatch(help(t, name), -1) {
			everywhere := slices.Contains([]string{"help", "json", "workspace", "store", "blobs", "engine", "server", "trust"}, flag[1])
			if !strings.Contains(text, "`--"+flag[1]) && !everywhere {
				t.Errorf("commands.md: %s has a flag --%s", name, flag[1])
			}
			if everywhere && !strings.Contains(page, "`--"+flag[1]) {
				t.Errorf("commands.md does not mention --%s", flag[1])
			}
		}
	}
}

// members are the names of a type's JSON members.
func members(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func TestJSONMembersAreListed(t *testing.T) {
	for heading, types := range map[string][]any{
		"## show":     {tipstaff.DeliveryState{}, tipstaff.DeliveryDiff{}, tipstaff.WorktreeState{}, tipstaff.AvailableAction{}, tipstaff.BlockedAction{}, tipstaff.DiffOf{}, tipstaff.FileChange{}, tipstaff.Run{}, tipstaff.Program{}, tipstaff.Owner{}, tipstaff.Gate{}, tipstaff.BoundStatus{}, tipstaff.Failure{}, tipstaff.Lineage{}},
		"## decide":   {tipstaff.Decision{}, tipstaff.Actor{}},
		"## verify":   {tipstaff.Report{}, tipstaff.Finding{}},
		"## run":      {tipstaff.Outline{}, tipstaff.Program{}},
		"## skills":   {tipstaff.SkillInfo{}, tipstaff.SkillField{}, tipstaff.SkillFailureMode{}},
		"## memory":   {tipstaff.MemoryItem{}, tipstaff.MemoryWeights{}, tipstaff.MemoryReport{}, tipstaff.Finding{}},
		"## tools":    {tipstaff.ToolInfo{}, tipstaff.ToolReport{}, tipstaff.ToolServer{}, tipstaff.ToolFinding{}, tipstaff.PinReport{}, tipstaff.PinChange{}, tipstaff.Explanation{}, tipstaff.ToolCheck{}, tipstaff.GuardFinding{}, tipstaff.MatchedRule{}, tipstaff.CallOutcome{}},
		"## task":     {tipstaff.Task{}, tipstaff.TaskPause{}, tipstaff.TaskInput{}, tipstaff.TaskOutput{}, tipstaff.TaskFeedback{}, tipstaff.TaskLogLine{}},
		"## workers":  {tipstaff.WorkerInfo{}, tipstaff.WorkerRole{}, tipstaff.WorkerCheck{}},
		"## store":    {tipstaff.StoreCopy{}},
		"## classify": {tipstaff.Classification{}, tipstaff.Reason{}},
		"## version":  {cli.VersionInfo{}, cli.Formats{}, cli.Protocols{}},
	} {
		text := section(t, "commands.md", heading)
		for _, v := range types {
			for _, name := range members(reflect.TypeOf(v)) {
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
					t.Errorf("commands.md: the JSON of %q has a member %s (%T)", heading, name, v)
				}
			}
		}
	}
}

// section is the part of a page under a heading that begins so.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	var b strings.Builder
	in := false
	for _, line := range strings.Split(readPage(t, page), "\n") {
		if strings.HasPrefix(line, "## ") {
			in = line == heading || strings.HasPrefix(line, heading+" ")
			continue
		}
		if in {
			b.WriteString(line + "\n")
		}
	}
	if b.Len() == 0 {
		t.Fatalf("%s has no section %q", page, heading)
	}
	return b.String()
}

var quotedName = regexp.MustCompile("`([a-z_]+)`")

// firstColumn are the names in the first column of a section's tables.
func firstColumn(text string) []string {
	var names []string
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || cells[0] != "" {
			continue
		}
		for _, m := range quotedName.FindAllStringSubmatch(cells[1], -1) {
			names = append(names, m[1])
		}
	}
	return names
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks looks for the files, and in our own pages the headings, that pages
// link to.
func TestLinks(t *testing.T) {
	decisions, err := filepath.Glob("adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := append(pages(t), "../CHANGELOG.md", "../llms.txt")
	seen := 0
	for _, page := range append(all, decisions...) {
		for _, m := range link.FindAllStringSubmatch(readPage(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			seen++
			file := filepath.Join(filepath.Dir(page), target)
			if target == "" {
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(readPage(t, file)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no page has a link")
	}
}

var sourceFile = regexp.MustCompile("`([a-z_./]+\\.(?:go|sh|py))`")

// TestSourceFilesNamedExist keeps pages from pointing into code that has moved. A file that a
// page has its reader make stands in one of its blocks.
func TestSourceFilesNamedExist(t *testing.T) {
	decisions, err := filepath.Glob("adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages(t), decisions...) {
		text := readPage(t, page)
		blocks, err := blocksOf(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sourceFile.FindAllStringSubmatch(text, -1) {
			seen++
			if slices.ContainsFunc(blocks, func(b block) bool { return b.file() == m[1] || strings.Contains(strings.Join(b.text, "\n"), m[1]) }) {
				continue
			}
			_, inRepository := os.Stat(filepath.Join("..", m[1]))
			_, beside := os.Stat(filepath.Join("../examples", m[1]))
			if inRepository != nil && beside != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no page names a source file")
	}
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 -]`)

// anchors of a page's headings, as they are made where it is shown.
func anchors(page string) []string {
	var all []string
	for _, line := range strings.Split(page, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line {
			plain := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all = append(all, strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return all
}
