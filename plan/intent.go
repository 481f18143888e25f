package plan

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Intent is what the plan is for. The zero value is that of a document without
// one.
type Intent struct {
	Verb            string
	Objects         []Object
	Budget          []Amount
	Deadline        time.Time // zero: none
	Anchor          bool
	Constraints     []Constraint
	SuccessCriteria []Criterion

	json json.RawMessage
}

// Object is something that the intent is about.
type Object struct{ Name, Value, URI, Type string }

// Amount is a decimal quantity of an asset.
type Amount struct{ Asset, Amount string }

// Constraint is one that must (hard) or should hold. Which fields have a meaning
// depends on Type.
type Constraint struct {
	Type         string
	Hard         bool
	Max          Amount    // budget
	By           time.Time // deadline
	Allow, Deny  []string  // jurisdiction
	Metric, Min  string    // quality
	Rule, Policy string
	Data         json.RawMessage // x:*
}

// Criterion tells when the intent has succeeded: its type, and the whole of it.
type Criterion struct {
	Type string
	JSON json.RawMessage
}

// JSON is the intent in RFC 8785 form, {} where there is none.
func (in Intent) JSON() json.RawMessage {
	if in.json == nil {
		return json.RawMessage("{}")
	}
	return in.json
}

// Hash names the intent: sha256:<hex> of JSON.
func (in Intent) Hash() string { return flow.Digest(in.JSON()) }

var (
	verbs = []string{"find", "acquire", "build", "modify", "deliver", "analyze", "negotiate", "schedule", "monitor", "delegate"}
	slug  = regexp.MustCompile(`^x:[a-z0-9][a-z0-9_-]{0,63}$`)
)

func decodeIntent(f *document.Fields, ps *document.Problems) Intent {
	v := f.Typed("intent", document.Object)
	if v == nil {
		return Intent{}
	}
	in := Intent{json: document.Raw(v)}
	xf := document.FieldsOf(ps, v, "intent")
	in.Verb = readExtensible(xf, "verb", verbs...)
	xf.Each("objects", func(o *document.Fields) {
		o.Need("name")
		in.Objects = append(in.Objects, Object{o.Text("name"), o.Text("value"), o.Text("uri"), o.Text("type")})
	})
	xf.Each("budget", func(b *document.Fields) { in.Budget = append(in.Budget, readAmount(b)) })
	in.Deadline = readInstant(xf, "deadline")
	in.Anchor = xf.Boolean("anchor", false)
	xf.Each("constraints", func(c *document.Fields) { in.Constraints = append(in.Constraints, readConstraint(c)) })
	xf.Each("success_criteria", func(c *document.Fields) {
		c.Need("type")
		kind := readExtensible(c, "type", "delivered", "signed_off", "external", "attestation")
		in.SuccessCriteria = append(in.SuccessCriteria, Criterion{kind, document.Raw(c.Value)})
		c.IgnoreRest() // what a criterion names is its reader's matter
	})
	xf.End()
	return in
}

// readExtensible is one of the words, or x:<slug>.
func readExtensible(f *document.Fields, name string, words ...string) string {
	v := f.Typed(name, document.Text)
	if v == nil {
		return ""
	}
	if !slices.Contains(words, v.Text) && !slug.MatchString(v.Text) {
		f.Problems.Add(document.CodeFieldInvalid, v.At, f.Path, "%s is %q; it must be one of %v or x:<name>", name, document.Brief(v.Text), words)
	}
	return v.Text
}

func readAmount(f *document.Fields) Amount {
	f.Need("asset")
	f.Need("amount")
	a := Amount{Asset: f.Text("asset"), Amount: f.Text("amount")}
	if v := f.Value.Get("amount"); v != nil && v.Kind == document.Text && !decimalGrammar.MatchString(v.Text) {
		f.Problems.Add(document.CodeFieldInvalid, v.At, f.Path, `amount is %q; an amount has at most nine decimals, like "0.50"`, document.Brief(v.Text))
	}
	return a
}

// readInstant is RFC 3339, or a day, which ends with its last second in UTC.
func readInstant(f *document.Fields, name string) time.Time {
	v := f.Typed(name, document.Text)
	if v == nil {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, v.Text); err == nil {
		return t.UTC()
	}
	if t, err := time.Parse(time.DateOnly, v.Text); err == nil {
		return t.Add(24*time.Hour - time.Second)
	}
	f.Problems.Add(document.CodeFieldInvalid, v.At, f.Path, "%s is %q; a time is written 2026-01-31T18:00:00Z or 2026-01-31", name, document.Brief(v.Text))
	return time.Time{}
}

func readConstraint(f *document.Fields) Constraint {
	f.Need("type")
	c := Constraint{
		Type: readExtensible(f, "type", "budget", "deadline", "jurisdiction", "quality", "rule", "policy"),
		Hard: f.Boolean("hard", false),
	}
	switch c.Type {
	case "budget":
		f.Need("max")
		if v := f.Typed("max", document.Object); v != nil {
			mf := document.FieldsOf(f.Problems, v, f.Path+".max")
			c.Max = readAmount(mf)
			mf.End()
		}
	case "deadline":
		f.Need("by")
		c.By = readInstant(f, "by")
	case "jurisdiction":
		c.Allow, _ = f.Texts("allow")
		c.Deny, _ = f.Texts("deny")
	case "quality":
		f.Need("metric")
		f.Need("min")
		c.Metric = f.Text("metric")
		if v := f.Get("min"); v != nil {
			if v.Kind != document.Text && v.Kind != document.Number {
				f.Problems.Add(document.CodeFieldType, v.At, f.Path, "min must be a number, not %v", v.Kind)
			}
			c.Min = v.Text
		}
	case "rule":
		f.Need("rule")
		c.Rule = f.Text("rule")
	case "policy":
		f.Need("policy")
		c.Policy = f.Text("policy")
	default:
		c.Data = document.Raw(f.Get("data"))
	}
	return c
}
