package tool

import (
	"encoding/json"
	"sync"

	"github.com/tipstaff/tipstaff/flow"
)

// fitting remembers arguments that were found to fit a definition, with their
// canonical bytes: the gate is asked about a call over what is frozen and again
// over what is live, and both times the same bytes meet the same schema. A
// definition is known by its digest, which covers the schema.
type fitting struct {
	mu    sync.Mutex
	known map[fit]json.RawMessage
	size  int
}

type fit struct{ definition, args string }

// fittingSize bounds the bytes that are remembered. When they are reached it is
// begun anew: what helps is what was asked a moment ago.
const fittingSize = 256 << 10

func newFitting() *fitting { return &fitting{known: map[fit]json.RawMessage{}} }

// arguments is the check of that name, made once for the same question.
func (f *fitting) arguments(d *Definition, raw json.RawMessage) (json.RawMessage, *flow.Error) {
	if f == nil {
		return arguments(d, raw)
	}
	key := fit{d.Digest, string(raw)}
	f.mu.Lock()
	args, ok := f.known[key]
	f.mu.Unlock()
	if ok {
		return args, nil
	}
	args, refused := arguments(d, raw)
	if refused == nil {
		f.remember(key, args)
	}
	return args, refused
}

func (f *fitting) remember(key fit, args json.RawMessage) {
	size := len(key.definition) + len(key.args) + len(args)
	if size > fittingSize/4 {
		return // it would push out all others
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size += size; f.size > fittingSize {
		clear(f.known)
		f.size = size
	}
	f.known[key] = args
}
