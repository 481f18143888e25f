package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// sameJSON reports whether two texts are the same value, however they are written.
// Whole numbers are compared digit by digit, others as doubles.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, xok := decoded(a)
	y, yok := decoded(b)
	return xok && yok && sameValue(x, y)
}

func decoded(raw []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	}
	return a == b
}

func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a, ".eE") || !strings.ContainsAny(b, ".eE") {
		return false
	}
	x, xerr := strconv.ParseFloat(a, 64)
	y, yerr := strconv.ParseFloat(b, 64)
	return xerr == nil && yerr == nil && x == y
}

// whole is a part of a record with its payload, if that is kept apart from it.
func (s *Server) whole(ctx context.Context, run tipstaff.ID, raw json.RawMessage) (json.RawMessage, error) {
	var apart struct {
		Blob string `json:"$blob"`
	}
	if !bytes.Contains(raw, []byte(`"$blob"`)) || json.Unmarshal(raw, &apart) != nil || apart.Blob == "" {
		return raw, nil
	}
	return s.svc.Artifact(ctx, run, apart.Blob)
}
