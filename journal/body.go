package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// Principals: who signs, and whom a kind of envelope belongs to.
const (
	User     = "user"
	Executor = "executor"
)

// shape is what the body of one kind of envelope looks like.
type shape struct {
	by     string // the principal whose act it is
	fields []field
}

// field is one member of an object in a body.
type field struct {
	name     string // "*": any name
	optional bool
	list     bool    // of objects with fields
	fields   []field // of an object; nil: not looked into
	typ      string  // of fieldTypes; "": anything goes
}

// envelopes are the thirteen signed kinds. In the notation a name alone is a
// required field of any value, ? makes it optional, {…} an object with exactly
// these fields, []{…} a list of such objects, and :type restricts the value to a
// type of fieldTypes. README.md has the same table, and a test compares them.
var envelopes = map[string]shape{
	"intent.draft": {Executor, parseShape(`program_kind program_digest?:digest prose? skill? skill_digest?:digest inputs bounds user origin
		keys{ user:key executor:key } frozen{ *:digest } title? labels? trace? parent?{ run relation } fork_of?{ run:name seq:seq hash:digest }
		hold? pipeline?{ envelope_id:text request_id:text thread_id:text version } rollback? by?:text rules? asks?:text files? followup? within?`)},
	"intent.compiled": {Executor, parseShape(`intent? intent_hash? program_digest?:digest model? attempts`)},
	"intent.clarify":  {Executor, parseShape(`gate round questions[]{ id prompt type options default? required }`)},
	"intent.answer":   {User, parseShape(`gate answers via client? note? decided_by? on_behalf_of?:text`)},
	"intent.accept":   {User, parseShape(`intent_hash program_digest:digest revision bounds via client? gate? note? decided_by? on_behalf_of?:text`)},
	"plan.proposed":   {Executor, parseShape(`intent_hash program_digest:digest revision accepted_by`)},
	"intent.correct":  {Executor, parseShape(`target reason material reasons intent_hash program_digest:digest revision on_behalf_of:text`)},
	"intent.dispatch": {Executor, parseShape(`child skill skill_digest:digest bounds`)},
	"intent.attest":   {Executor, parseShape(`outcome outputs_digest:digest cited evidence terminal_reason? termination_reason?`)},
	"intent.fail":     {Executor, parseShape(`reason code? message bound? cited evidence terminal_reason? termination_reason?`)},
	"intent.cancel":   {User, parseShape(`reason via gate? cited evidence on_behalf_of?:text terminal_reason? termination_reason?`)},
	"policy.gate":     {Executor, parseShape(`gate gate_kind question subject actions deny digest expires_at?`)},
	"policy.gate.resolve": {User, parseShape(`gate action answer? feedback? note? decided_by? subject_digest fail_reason? via
		client? on_behalf_of?:text`)},
}

// fieldTypes are the values that a verifier itself relies on.
var fieldTypes = map[string]func([]byte) error{
	"digest": func(v []byte) error {
		s, _ := stringValue(v)
		_, err := ParseHash(s)
		return err
	},
	"key": func(v []byte) error {
		s, _ := stringValue(v)
		_, err := ParsePublicKey(s)
		return err
	},
	"text": func(v []byte) error {
		if s, _ := stringValue(v); s == "" {
			return fmt.Errorf("it is not a string of one character or more")
		}
		return nil
	},
	// A name becomes part of a file's name in an export.
	"name": func(v []byte) error {
		if s, _ := stringValue(v); !isName(s) {
			return fmt.Errorf("it is not an id of letters, digits, - and _")
		}
		return nil
	},
	"seq": func(v []byte) error {
		if _, ok := wholeNumber(v); !ok {
			return fmt.Errorf("it is not a whole number from 1")
		}
		return nil
	},
}

// IsEnvelope reports whether records of this kind are signed.
func IsEnvelope(kind string) bool {
	_, ok := envelopes[kind]
	return ok
}

// isTerminal reports whether an envelope of this kind ends its run.
func isTerminal(kind string) bool {
	return kind == "intent.attest" || kind == "intent.fail" || kind == "intent.cancel"
}

// CheckBody compares an envelope's body with the fields of its kind. The error
// wraps [ErrBody] and names the field.
func CheckBody(kind string, body []byte) error {
	s, ok := envelopes[kind]
	if !ok {
		return fmt.Errorf("%w: %q is no kind of envelope", ErrUnknownKind, kind)
	}
	if err := canon.Check(body); err != nil {
		return fmt.Errorf("%w: %s: %v", ErrBody, kind, err)
	}
	if err := checkObject("", body, s.fields); err != nil {
		return fmt.Errorf("%w: %s: %v", ErrBody, kind, err)
	}
	return checkKeysDiffer(kind, body)
}

// checkKeysDiffer: with one key for both nobody could tell who signed.
func checkKeysDiffer(kind string, body []byte) error {
	if kind != draftKind {
		return nil
	}
	if d := readDraft(body); d.user == d.executor {
		return fmt.Errorf("%w: %s: keys.user and keys.executor are the same key", ErrBody, kind)
	}
	return nil
}

func checkObject(at string, b []byte, fields []field) error {
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("%s is not an object", or(at, "the body"))
	}
	seen := map[string]bool{}
	for name, m := range members(b) {
		where := strings.TrimPrefix(at+"."+name, ".")
		if seen[name] {
			return fmt.Errorf("field %s stands twice", where)
		}
		seen[name] = true
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name || f.name == "*" })
		if i < 0 {
			return fmt.Errorf("unknown field %s", where)
		}
		if err := checkField(where, b[m.Start:m.End], fields[i]); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if !f.optional && f.name != "*" && !seen[f.name] {
			return fmt.Errorf("missing field %s", strings.TrimPrefix(at+"."+f.name, "."))
		}
	}
	return nil
}

func checkField(where string, v []byte, f field) error {
	if f.typ != "" {
		if err := fieldTypes[f.typ](v); err != nil {
			return fmt.Errorf("field %s: %w", where, err)
		}
	}
	if f.fields == nil {
		return nil
	}
	if !f.list {
		return checkObject(where, v, f.fields)
	}
	if v[0] != '[' {
		return fmt.Errorf("field %s is not a list", where)
	}
	n := 0
	for e := range canon.Elements(v) {
		if err := checkObject(fmt.Sprintf("%s[%d]", where, n), e, f.fields); err != nil {
			return err
		}
		n++
	}
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// parseShape reads the notation of envelopes.
func parseShape(notation string) []field {
	words := strings.Fields(notation)
	fields, rest := parseFields(words)
	if len(rest) != 0 {
		panic("journal: unbalanced braces in " + notation)
	}
	return fields
}

func parseFields(words []string) (fields []field, rest []string) {
	for len(words) > 0 && words[0] != "}" {
		var f field
		word, opens := strings.CutSuffix(words[0], "{")
		words = words[1:]
		word, f.list = strings.CutSuffix(word, "[]")
		word, f.typ, _ = strings.Cut(word, ":")
		f.name, f.optional = strings.CutSuffix(word, "?")
		if f.typ != "" && fieldTypes[f.typ] == nil {
			panic("journal: no field type " + f.typ)
		}
		if opens {
			if f.fields, words = parseFields(words); len(words) == 0 {
				panic("journal: a brace is open at " + f.name)
			}
			words = words[1:]
		}
		fields = append(fields, f)
	}
	return fields, words
}

// stringValue is the string that the JSON value v is, if it is one.
func stringValue(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	return canon.Unquote(v), true
}

func isName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	})
}
