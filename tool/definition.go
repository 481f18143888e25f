package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
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

	InputSchema  *Schema
	OutputSchema *Schema // nil: the tool states none
}

// wireTool are the members of a tool's object that matter here. The rest counts
// only through the digest.
type wireTool struct {
	Name         string          `json:"name"`
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

// define makes a definition from a tool's object as received.
func define(server, version string, raw json.RawMessage, c ToolConfig) (*Definition, error) {
	w, err := parseWireTool(raw)
	if err != nil {
		return nil, err
	}
	text, err := canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("its definition has no canonical form: %w", err)
	}
	h, err := parseHints(w.Annotations)
	if err != nil {
		return nil, fmt.Errorf("its annotations cannot be read: %w", err)
	}
	d := &Definition{
		Server: server, Tool: w.Name, Version: version,
		Digest: digestOf(text), Raw: text,
		Class: effective(c.Effect, h.class()), Timeout: c.Timeout, MaxResult: c.MaxResult,
	}
	return d, d.compile(w)
}

func (d *Definition) compile(w wireTool) (err error) {
	if absent(w.InputSchema) {
		return fmt.Errorf("it has no input schema")
	}
	if d.InputSchema, err = compileSchema(w.InputSchema); err != nil {
		return fmt.Errorf("its input schema cannot be used: %w", err)
	}
	if absent(w.OutputSchema) {
		return nil
	}
	if d.OutputSchema, err = compileSchema(w.OutputSchema); err != nil {
		return fmt.Errorf("its output schema cannot be used: %w", err)
	}
	return nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// fits reports whether a pin names this definition.
func (d *Definition) fits(pin string) bool { return pin == d.Digest || pin == d.Version }

// difference lists, sorted, the members in which two definitions differ, so that
// a person can see what moved.
func difference(old, now json.RawMessage) []string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(now, &b) != nil {
		return []string{"the whole definition"}
	}
	var list []string
	for _, name := range sortedKeys(a) {
		switch other, ok := b[name]; {
		case !ok:
			list = append(list, name+" is gone")
		case !bytes.Equal(a[name], other):
			list = append(list, name+" changed")
		}
	}
	for _, name := range sortedKeys(b) {
		if _, ok := a[name]; !ok {
			list = append(list, name+" is new")
		}
	}
	slices.Sort(list)
	return list
}
