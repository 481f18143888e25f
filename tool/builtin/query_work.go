package builtin

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

const (
	mostWork   = 2_000_000 // of one call of a function, in comparisons or bytes
	mostValues = 1_000_000 // in a list that is put together, and in a result
)

// CEL counts what an expression costs after the fact, and can be interrupted between
// the rounds of a macro alone. Functions that do more than look at each argument once
// are therefore measured before they are called: the work that they would make of
// their arguments.
var heavy = map[string]func(args []ref.Val) int{
	"distinct":        func(a []ref.Val) int { return times(size(a[0]), weight(a[0])) },
	"sort":            func(a []ref.Val) int { return times(20, weight(a[0])) },
	"sets.contains":   crossed,
	"sets.equivalent": crossed,
	"sets.intersects": crossed,
	"hasOnly":         crossed,
	"hasAny":          crossed,
	"hasAll":          crossed,
	"hasExactly":      crossed,
	"lists.range":     func(a []ref.Val) int { n, _ := a[0].(types.Int); return int(min(max(n, 0), mostWork+1)) },
	"replace": func(a []ref.Val) int {
		if len(a) < 3 {
			return 0
		}
		return size(a[0]) + times(size(a[0])/max(size(a[1]), 1)+1, size(a[2]))
	},
	"join": func(a []ref.Val) int {
		sep := 0
		if len(a) > 1 {
			sep = size(a[1])
		}
		return weight(a[0])*bytesWeighed + times(size(a[0]), sep)
	},
	"indexOf":     func(a []ref.Val) int { return searched(a) },
	"lastIndexOf": func(a []ref.Val) int { return searched(a) },
}

func crossed(a []ref.Val) int {
	if len(a) < 2 {
		return 0
	}
	return max(times(size(a[0]), weight(a[1])), times(size(a[1]), weight(a[0])))
}

func searched(a []ref.Val) int {
	if len(a) < 2 {
		return 0
	}
	return times(size(a[0]), 1+size(a[1])/bytesWeighed)
}

// times multiplies as far as it matters.
func times(a, b int) int { return min(a, mostWork+1) * min(b, mostWork+1) }

// size is the number of a list's items, or of a text's bytes.
func size(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	}
	return 1
}

// bytesWeighed are compared as fast as anything else is looked at once.
const bytesWeighed = 64

// weight is what it takes to look at all of a value.
func weight(v ref.Val) int {
	total := 0
	var add func(ref.Val)
	add = func(v ref.Val) {
		if total++; total > mostWork {
			return
		}
		switch v := v.(type) {
		case types.String:
			total += len(v) / bytesWeighed
		case traits.Mapper:
			for it := v.Iterator(); it.HasNext() == types.True && total <= mostWork; {
				key := it.Next()
				add(key)
				add(v.Get(key))
			}
		case traits.Lister:
			for it := v.Iterator(); it.HasNext() == types.True && total <= mostWork; {
				add(it.Next())
			}
		}
	}
	add(v)
	return total
}

// celEnv is what expressions are compiled in, and the functions that are measured.
type celEnv struct {
	*cel.Env
	heavy map[string]*functions.Overload // by name
}

func (e *celEnv) measured() error {
	e.heavy = map[string]*functions.Overload{}
	for name, fn := range e.Functions() {
		if heavy[name] == nil {
			continue
		}
		bindings, err := fn.Bindings()
		if err != nil {
			return err
		}
		for _, b := range bindings {
			if b.Operator == name {
				e.heavy[name] = b
			}
		}
	}
	return nil
}

// measure puts its own calls in the place of those that are heavy, and looks at the
// size of what is put together.
func (e *celEnv) measure(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	c, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	if f := e.heavy[c.Function()]; f != nil {
		return heavyCall{c, f}, nil
	}
	if c.Function() == operators.Add {
		return sum{c}, nil
	}
	return i, nil
}

// heavyCall is a call that is measured once its arguments are known.
type heavyCall struct {
	interpreter.InterpretableCall
	function *functions.Overload
}

// Eval implements interpreter.Interpretable.
func (c heavyCall) Eval(vars interpreter.Activation) ref.Val {
	frame, err := interpreter.NewExecutionFrame(vars)
	if err != nil {
		return types.WrapErr(err)
	}
	defer frame.Close()
	return c.Exec(frame)
}

// Exec implements interpreter.InterpretableV2.
func (c heavyCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var args []ref.Val
	for _, arg := range c.Args() {
		v := arg.Exec(frame)
		if types.IsUnknownOrError(v) {
			return v
		}
		args = append(args, v)
	}
	if frame.CheckInterrupt() {
		return types.WrapErr(interpreter.InterruptError{})
	}
	if heavy[c.Function()](args) > mostWork {
		return types.NewErr("%s has too much to do: query a part of the value", c.Function())
	}
	switch f := c.function; {
	case len(args) == 1 && f.Unary != nil:
		return f.Unary(args[0])
	case len(args) == 2 && f.Binary != nil:
		return f.Binary(args[0], args[1])
	case f.Function != nil:
		return f.Function(args...)
	}
	return types.NewErr("%s cannot be called like this", c.Function())
}

// sum is an addition, of lists or texts possibly.
type sum struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (s sum) Eval(vars interpreter.Activation) ref.Val {
	return s.checked(s.InterpretableCall.Eval(vars))
}

// Exec implements interpreter.InterpretableV2.
func (s sum) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return s.checked(s.InterpretableCall.Exec(frame))
}

func (s sum) checked(v ref.Val) ref.Val {
	switch v.(type) {
	case types.String, types.Bytes:
		if size(v) > mostWork*bytesWeighed/4 {
			return types.NewErr("the text has more than %d bytes", mostWork*bytesWeighed/4)
		}
	case traits.Lister:
		if size(v) > mostValues {
			return types.NewErr("the list has more than %d items", mostValues)
		}
	}
	return v
}
