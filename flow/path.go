package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

const (
	maxSegment = 128
	maxPath    = 1024
)

// join appends a segment to a path; an empty root adds no slash.
func join(path, segment string) string {
	switch {
	case segment == "":
		return path
	case path == "":
		return segment
	}
	return path + "/" + segment
}

// parent is the path without its last segment.
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

func segmentFault(s string) string {
	if len(s) == 0 || len(s) > maxSegment {
		return "a path segment has 1 to 128 characters"
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '@', c == '#', c == '-':
		default:
			return "a path segment is made of letters, digits and . _ @ # -"
		}
	}
	return ""
}

// reserved reports whether the engine itself uses this segment as a last one.
func reserved(s string) bool {
	name, n, numbered := strings.Cut(s, "#")
	switch name {
	case "in_doubt":
		return true
	case "now", "sleep", "go", "bound":
		return numbered && n != "" && strings.Trim(n, "0123456789") == ""
	}
	return false
}

func numbered(name string, n int) string { return name + "#" + strconv.Itoa(n) }

// digest is SHA-256 of kind, one zero byte, and data.
func digest(kind string, data []byte) string {
	var buf [512]byte
	b := append(buf[:0], kind...)
	b = append(b, 0)
	if len(data) < len(buf)-len(b) {
		return Digest(append(b, data...))
	}
	h := sha256.New()
	h.Write(b)
	h.Write(data)
	return named(h.Sum(nil))
}

// Digest is the SHA-256 of b as it stands in records: sha256:<hex>.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return named(sum[:])
}

func named(sum []byte) string {
	var out [7 + 64]byte
	copy(out[:], "sha256:")
	hex.Encode(out[7:], sum)
	return string(out[:])
}

// CallDigest identifies what a call asks for: its name and exact input.
func CallDigest(name string, input []byte) string { return digest(name, input) }

// GateDigest identifies what a gate asks: everything but key and expiry. It is
// taken over canonical JSON, so that it can be computed again from a record.
func GateDigest(g Gate) string { return digest(g.Kind, GateJSON(g)) }

// GateJSON is what a gate asks.
func GateJSON(g Gate) []byte {
	asked := struct {
		Actions  []string        `json:"actions"`
		Deny     string          `json:"deny"`
		Question string          `json:"question"`
		Subject  json.RawMessage `json:"subject,omitempty"`
	}{orEmpty(g.Actions), g.Deny, g.Question, g.Subject}
	if string(asked.Subject) == "null" {
		asked.Subject = nil
	}
	body := []byte(JSON(asked))
	if canonical, err := canon.Form(body); err == nil {
		body = canonical
	}
	return body
}

// IdempotencyKey is equal in all attempts and drives of one call. Segments of a
// long run count their keys anew, so the segment is part of it from the second on.
func IdempotencyKey(run, path string, segment int) string {
	var buf [256]byte
	b := append(append(append(buf[:0], run...), '\n'), path...)
	if segment > 0 {
		b = strconv.AppendInt(append(b, '~'), int64(segment), 10)
	}
	sum := sha256.Sum256(b)
	var out [2 * sha256.Size]byte
	hex.Encode(out[:], sum[:])
	return string(out[:])
}
