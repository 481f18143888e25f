package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/ext"
)

// conditionCost bounds the work of one condition.
const conditionCost = 10_000

// ofTime are the functions of CEL that know calendars. They are left out: a
// condition sees no clock that it could compare with, and the names of time zones
// mean what the files of a machine say.
var ofTime = []string{"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
	"getMinutes", "getMonth", "getSeconds"}

// language is what conditions are written in. The members of tool, turn and run
// are variables of their own, so that a misspelt one is found when a document is
// loaded.
var language = sync.OnceValues(func() (*cel.Env, error) {
	timeless := env.NewLibrarySubset()
	for _, name := range ofTime {
		timeless.AddExcludedFunctions(env.NewFunction(name))
	}
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(timeless)), ext.Strings(), ext.Sets(), cel.CrossTypeNumericComparisons(true),
		cel.Variable("args", object), cel.Variable("facts", object),
		cel.Variable("tool.server", cel.StringType), cel.Variable("tool.name", cel.StringType), cel.Variable("tool.uri", cel.StringType),
		cel.Variable("tool.effect", cel.StringType), cel.Variable("tool.destructive", cel.BoolType), cel.Variable("tool.open_world", cel.BoolType),
		cel.Variable("turn.untrusted", cel.BoolType), cel.Variable("turn.step", cel.IntType),
		cel.Variable("run.id", cel.StringType), cel.Variable("run.path", cel.StringType), cel.Variable("run.principal", cel.StringType),
	)
})

func compileCondition(text string) (cel.Program, error) {
	l, err := language()
	if err != nil {
		return nil, err
	}
	ast, issues := l.Compile(text)
	if issues.Err() != nil {
		return nil, faults(issues)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the condition gives %s, not true or false", t)
	}
	return l.Program(ast, cel.CostLimit(conditionCost))
}

// mostFaults of one condition are reported: the first explains the others.
const mostFaults = 3

func faults(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		at := fmt.Sprintf("column %d", e.Location.Column()+1)
		if e.Location.Line() > 1 {
			at = fmt.Sprintf("line %d, %s", e.Location.Line(), at)
		}
		all = append(all, fmt.Sprintf("%s (%s of the condition)", e.Message, at))
	}
	return errors.New("the condition does not compile: " + strings.Join(all[:min(len(all), mostFaults)], "; "))
}

// view is a call as conditions see it. It is made when the first of them is met.
type view struct {
	made bool
	vars map[string]any
	err  error
}

// holds evaluates a condition. One that fails to evaluate is neither true nor
// false: the error says so.
func (v *view) holds(p cel.Program, c *Call) (bool, error) {
	if !v.made {
		v.made = true
		v.vars, v.err = variables(c)
	}
	if v.err != nil {
		return false, v.err
	}
	out, _, err := p.Eval(v.vars)
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the condition gave %s, not true or false", out.Type().TypeName())
	}
	return holds, nil
}

func variables(c *Call) (map[string]any, error) {
	args, err := objectOf(c.Args)
	if err != nil {
		return nil, err
	}
	facts, err := objectOf(c.Facts)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"args": args, "facts": facts,
		"tool.server": c.Server, "tool.name": c.Tool, "tool.uri": c.URI, "tool.effect": string(c.Class),
		"tool.destructive": c.Destructive, "tool.open_world": c.OpenWorld,
		"turn.untrusted": c.Turn.Untrusted, "turn.step": c.Turn.Step,
		"run.id": c.Run.ID, "run.path": c.Run.Path, "run.principal": c.Run.Principal,
	}, nil
}

func objectOf(raw json.RawMessage) (map[string]any, error) {
	object := map[string]any{}
	if len(raw) == 0 {
		return object, nil
	}
	err := json.Unmarshal(raw, &object)
	return object, err
}
