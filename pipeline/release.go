package pipeline

import (
	"encoding/json"
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Release is the expression that says whether what a program has brought may be
// delivered: of a pipeline, or of a plan.
type Release struct{ *expression }

// releases is what such an expression sees.
var releases = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvironment(cel.Variable("outputs", object), cel.Variable("waivers", cel.ListType(object)))
})

// CompileRelease reads and checks an expression.
func CompileRelease(source string) (*Release, error) {
	env, err := releases()
	if err != nil {
		return nil, err
	}
	x, err := condition(compileIn(env, source))
	return &Release{x}, err
}

// Allows evaluates the expression over outputs, an object, and what people have let pass.
func (r *Release) Allows(outputs json.RawMessage, waivers []tipstaff.Waiver) (bool, error) {
	brought, err := canon.Decode(outputs, canon.MaxDepth)
	if err != nil {
		return false, fmt.Errorf("the outputs cannot be read: %w", err)
	}
	passed, err := canon.Decode(flow.JSON(append([]tipstaff.Waiver{}, waivers...)), canon.MaxDepth)
	if err != nil {
		return false, err
	}
	v, _, err := r.program.Eval(map[string]any{"outputs": brought, "waivers": passed})
	if err != nil {
		return false, err
	}
	if b, ok := v.(types.Bool); ok {
		return bool(b), nil
	}
	return false, fmt.Errorf("it yields %s, not a boolean", v.Type().TypeName())
}
