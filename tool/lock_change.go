package tool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Members of a PinChange that are not in a definition.
const (
	memberVersion = "version"
	memberPackage = "package_digest"
	MemberFile    = "file " // and its path
	memberClass   = "class"
)

// members are the members in which two definitions, which are canonical JSON,
// differ.
func members(server, tool string, was, now json.RawMessage) (list []tipstaff.PinChange) {
	for _, d := range Differences(was, now) {
		list = append(list, tipstaff.PinChange{Server: server, Tool: tool, Kind: tipstaff.PinChanged, Member: d.Pointer, Was: d.Was, Now: d.Now})
	}
	return list
}

// Difference is a place at which two JSON values differ: a JSON pointer, and what
// stands there in each. nil is nothing.
type Difference struct {
	Pointer  string
	Was, Now json.RawMessage
}

// Differences lists where two JSON values differ, by pointer, sorted. Objects are
// compared member by member; lists too, if they are equally long.
func Differences(was, now json.RawMessage) []Difference {
	var a, b any
	if json.Unmarshal(was, &a) != nil || json.Unmarshal(now, &b) != nil {
		return nil
	}
	var list []Difference
	compare("", a, b, func(pointer string, was, now json.RawMessage) { list = append(list, Difference{pointer, was, now}) })
	slices.SortStableFunc(list, func(x, y Difference) int { return strings.Compare(x.Pointer, y.Pointer) })
	return list
}

// compare calls differs for each place at which a and b differ; a value that is
// absent is nil.
func compare(pointer string, a, b any, differs func(pointer string, was, now json.RawMessage)) {
	x, isObject := a.(map[string]any)
	y, both := b.(map[string]any)
	if isObject && both {
		compareObjects(pointer, x, y, differs)
		return
	}
	l, isList := a.([]any)
	m, both := b.([]any)
	if isList && both && len(l) == len(m) {
		for i := range l {
			compare(pointer+"/"+strconv.Itoa(i), l[i], m[i], differs)
		}
		return
	}
	if was, now := flow.JSON(a), flow.JSON(b); !bytes.Equal(was, now) {
		differs(pointer, was, now)
	}
}

func compareObjects(pointer string, a, b map[string]any, differs func(pointer string, was, now json.RawMessage)) {
	for name, was := range a {
		at := pointer + "/" + escapePointer(name)
		if now, ok := b[name]; ok {
			compare(at, was, now, differs)
		} else {
			differs(at, flow.JSON(was), nil)
		}
	}
	for name, now := range b {
		if _, ok := a[name]; !ok {
			differs(pointer+"/"+escapePointer(name), nil, flow.JSON(now))
		}
	}
}

// holds checks a definition against the lock. A nil lock is not looked at.
func (l *Lock) holds(d *Definition) *flow.Error {
	if l == nil || d.Server == builtin.Name {
		return nil
	}
	t, ok := l.Tool(d.Server, d.Tool)
	if !ok {
		return refusal(CodeUnlocked, detail{"digest": d.Digest}, "%s/%s is not in %s any more", d.Server, d.Tool, LockName)
	}
	return unchanged(l.Servers[d.Server].Version, t, d)
}

// accepts reports whether the lock holds exactly this definition.
func (l *Lock) accepts(d *Definition) bool {
	t, ok := l.Tool(d.Server, d.Tool)
	return ok && t.Digest == d.Digest
}

// unchanged refuses a definition, or a version of its server, that is another
// than the one that was accepted.
func unchanged(version string, was LockedTool, now *Definition) *flow.Error {
	var changes []tipstaff.PinChange
	if version != now.Version {
		changes = append(changes, tipstaff.PinChange{Kind: tipstaff.PinChanged, Member: memberVersion, Was: flow.JSON(version), Now: flow.JSON(now.Version)})
	}
	if was.Digest != now.Digest {
		changes = append(changes, members(now.Server, now.Tool, was.Definition, now.Raw)...)
	}
	if changes == nil {
		return nil
	}
	list, text := briefly(changes)
	return refusal(CodeDefinitionChanged, detail{"accepted": was.Digest, "digest": now.Digest, "difference": list},
		"the definition of %s/%s is not the one that was accepted: %s; `tipstaff tools pin %s` shows it", now.Server, now.Tool, text, now.Server)
}

// What a record says of a changed definition is bounded: the server decides how
// much there is.
const (
	mostMembers    = 20
	mostMemberText = 240 // bytes of a value
)

// moved is one member in a refusal.
type moved struct {
	Member string          `json:"member"`
	Was    json.RawMessage `json:"was,omitempty"` // a long value is a text, cut
	Now    json.RawMessage `json:"now,omitempty"`
}

// briefly is a difference as a record keeps it, and as a message names it.
func briefly(changes []tipstaff.PinChange) ([]moved, string) {
	var list []moved
	var names []string
	for _, c := range changes[:min(len(changes), mostMembers)] {
		list = append(list, moved{cut(c.Member, mostMemberText), cutValue(c.Was), cutValue(c.Now)})
		names = append(names, cut(strings.TrimPrefix(c.Member, "/"), mostMemberText)+" "+verb(c))
	}
	if left := len(changes) - len(list); left > 0 {
		names = append(names, "and "+strconv.Itoa(left)+" more")
	}
	return list, strings.Join(names, ", ")
}

func verb(c tipstaff.PinChange) string {
	switch {
	case c.Was == nil:
		return "is new"
	case c.Now == nil:
		return "is gone"
	}
	return "changed"
}

func cutValue(raw json.RawMessage) json.RawMessage {
	if len(raw) <= mostMemberText {
		return raw
	}
	return flow.JSON(cut(string(raw), mostMemberText))
}
