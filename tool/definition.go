package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

// Definition is a tool as its server lists it and the manifest declares it.
type Definition struct {
	Server, Tool string
	Version      string          // that the server reports
	Digest       string          // of Raw
	Raw          json.RawMessage // canonical JSON of the tool's object as it came over the wire, unknown members included
	Class        flow.Class      // the stricter of manifest and hints
	Timeout      time.Duration   // of one call, unless its node says otherwise
	MaxResult    int64           // bytes of output
	Description  string          // what the tool says of itself
	Hints        Hints           // as the tool states them

	InputSchema  *Schema
	OutputSchema *Schema // nil: the tool states none

	usable func() error // compiles the schemas, once
}

// wireTool are the members of a tool's object that matter here. The rest counts
// only through the digest.
type wireTool struct {
	Name         string          `json:"name"`
	Description  any             `json:"description"` // text, if it keeps to the protocol
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
}

func parseWireTool(raw json.RawMessage) (wireTool, error) {
	var w wireTool
	if err := json.Unmarshal(raw, &w); err != nil {
		return w, fmt.Errorf("its definition cannot be read: %w", err)
	}
	return w, nil
}

// maxDefinition bounds what is kept of one tool: it goes into the lock and into every
// run that uses it, and a person reads it before accepting it.
const maxDefinition = 8 << 20

// define makes a definition from a tool's object as received.
func define(server, version string, raw json.RawMessage, c workspace.Tool) (*Definition, error) {
	if len(raw) > maxDefinition {
		return nil, fmt.Errorf("its definition has %d bytes: %d are the most", len(raw), maxDefinition)
	}
	text, err := canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("its definition has no canonical form: %w", err)
	}
	return defineText(server, version, text, c)
}

// defineText is define for text that is canonical, or whose digest will not be
// what is expected of it.
func defineText(server, version string, text json.RawMessage, c workspace.Tool) (*Definition, error) {
	w, err := parseWireTool(text)
	if err != nil {
		return nil, err
	}
	h, err := parseHints(w.Annotations)
	if err != nil {
		return nil, fmt.Errorf("its annotations cannot be read: %w", err)
	}
	if absent(w.InputSchema) {
		return nil, fmt.Errorf("it has no input schema")
	}
	description, _ := w.Description.(string)
	d := &Definition{
		Server: server, Tool: w.Name, Version: version,
		Digest: flow.Digest(text), Raw: text,
		Class: effective(c.Effect, h.class()), Timeout: c.Timeout, MaxResult: c.MaxResult,
		Description: description, Hints: h,
		InputSchema: newSchema(w.InputSchema),
	}
	if !absent(w.OutputSchema) {
		d.OutputSchema = newSchema(w.OutputSchema)
	}
	d.usable = sync.OnceValue(d.compile)
	return d, nil
}

func (d *Definition) compile() error {
	if err := d.InputSchema.usable(); err != nil {
		return fmt.Errorf("its input schema cannot be used: %w", err)
	}
	if err := checkHeaders(d.InputSchema.raw); err != nil {
		return fmt.Errorf("its input schema cannot be used: %w", err)
	}
	if d.OutputSchema == nil {
		return nil
	}
	if err := d.OutputSchema.usable(); err != nil {
		return fmt.Errorf("its output schema cannot be used: %w", err)
	}
	return nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// fits reports whether a pin names this definition.
func (d *Definition) fits(pin string) bool { return pin == d.Digest || pin == d.Version }

// effective is the stricter of what the manifest and the hints state, "" being
// nothing. With neither it is once.
func effective(declared, hinted flow.Class) flow.Class {
	switch {
	case declared == "" && hinted == "":
		return flow.Once
	case declared == "":
		return hinted
	case hinted == "" || !policy.Stricter(hinted, declared):
		return declared
	}
	return hinted
}

// Hints are a tool's annotations as they came over the wire. A pointer keeps absent
// and false apart: absent claims nothing.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

func parseHints(annotations json.RawMessage) (Hints, error) {
	var h Hints
	if absent(annotations) {
		return h, nil
	}
	err := json.Unmarshal(annotations, &h)
	return h, err
}

// class is what the hints state, "" if nothing.
func (h Hints) class() flow.Class {
	switch {
	case isTrue(h.ReadOnly) && isTrue(h.Destructive):
		return flow.Once // it contradicts itself: believe the worse half
	case isTrue(h.ReadOnly):
		return flow.Read
	case isTrue(h.Idempotent):
		return flow.Idempotent
	case h.ReadOnly != nil || h.Idempotent != nil || isTrue(h.Destructive):
		return flow.Once
	}
	return ""
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// Destructive reports whether a call may undo or overwrite something: what is not
// read may, unless it is said not to.
func (d *Definition) Destructive() bool { return d.Class != flow.Read && !isFalse(d.Hints.Destructive) }

// OpenWorld reports whether what the tool returns may come from anybody. Only a
// tool that denies it does not.
func (d *Definition) OpenWorld() bool { return !isFalse(d.Hints.OpenWorld) }

// sortedKeys are the names of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// errNumberUnsafe: a number would be sent with another value than was written.
var errNumberUnsafe = errors.New("the number would change its value in canonical JSON")

// canonical is the RFC 8785 form of one JSON value. A number that it could only
// write with another decimal value is errNumberUnsafe.
func canonical(raw []byte) ([]byte, error) {
	form, err := canon.Exact(raw)
	if unsafe := (*canon.UnsafeNumber)(nil); errors.As(err, &unsafe) {
		return nil, fmt.Errorf("%w: %s", errNumberUnsafe, tipstaff.Quote(unsafe.Literal, 60))
	}
	return form, err
}

// canonicalOf encodes v and brings it into canonical form.
func canonicalOf(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canonical(raw)
}
