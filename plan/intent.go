package plan

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"
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
func (in Intent) Hash() string { return digest(in.JSON()) }

var (
	verbs = []string{"find", "acquire", "build", "modify", "deliver", "analyze", "negotiate", "schedule", "monitor", "delegate"}
	slug  = regexp.MustCompile(`^x:[a-z0-9][a-z0-9_-]{0,63}$`)
)

func decodeIntent(f *fields, ps *problems) Intent {
	v := f.typed("intent", object)
	if v == nil {
		return Intent{}
	}
	in := Intent{json: raw(v)}
	xf := fieldsOf(ps, v, "intent")
	in.Verb = xf.extensible("verb", verbs...)
	xf.each("objects", func(o *fields) {
		o.need("name")
		in.Objects = append(in.Objects, Object{o.text("name"), o.text("value"), o.text("uri"), o.text("type")})
	})
	xf.each("budget", func(b *fields) { in.Budget = append(in.Budget, b.amount()) })
	in.Deadline = xf.instant("deadline")
	in.Anchor = xf.boolean("anchor", false)
	xf.each("constraints", func(c *fields) { in.Constraints = append(in.Constraints, c.constraint()) })
	xf.each("success_criteria", func(c *fields) {
		c.need("type")
		kind := c.extensible("type", "delivered", "signed_off", "external", "attestation")
		in.SuccessCriteria = append(in.SuccessCriteria, Criterion{kind, raw(c.v)})
		for _, m := range c.v.members { // what a criterion names is its reader's matter
			c.asked[m.key] = true
		}
	})
	xf.end()
	return in
}

// extensible is one of the words, or x:<slug>.
func (f *fields) extensible(name string, words ...string) string {
	v := f.typed(name, text)
	if v == nil {
		return ""
	}
	if !slices.Contains(words, v.text) && !slug.MatchString(v.text) {
		f.ps.add(codeFieldInvalid, v.at, f.path, "%s is %q; it must be one of %v or x:<name>", name, brief(v.text), words)
	}
	return v.text
}

func (f *fields) amount() Amount {
	f.need("asset")
	f.need("amount")
	a := Amount{Asset: f.text("asset"), Amount: f.text("amount")}
	if v := f.v.get("amount"); v != nil && v.kind == text && !decimalGrammar.MatchString(v.text) {
		f.ps.add(codeFieldInvalid, v.at, f.path, `amount is %q; an amount has at most nine decimals, like "0.50"`, brief(v.text))
	}
	return a
}

// instant is RFC 3339, or a day, which ends with its last second in UTC.
func (f *fields) instant(name string) time.Time {
	v := f.typed(name, text)
	if v == nil {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, v.text); err == nil {
		return t.UTC()
	}
	if t, err := time.Parse(time.DateOnly, v.text); err == nil {
		return t.Add(24*time.Hour - time.Second)
	}
	f.ps.add(codeFieldInvalid, v.at, f.path, "%s is %q; a time is written 2026-01-31T18:00:00Z or 2026-01-31", name, brief(v.text))
	return time.Time{}
}

func (f *fields) constraint() Constraint {
	f.need("type")
	c := Constraint{
		Type: f.extensible("type", "budget", "deadline", "jurisdiction", "quality", "rule", "policy"),
		Hard: f.boolean("hard", false),
	}
	switch c.Type {
	case "budget":
		f.need("max")
		if v := f.typed("max", object); v != nil {
			mf := fieldsOf(f.ps, v, f.path+".max")
			c.Max = mf.amount()
			mf.end()
		}
	case "deadline":
		f.need("by")
		c.By = f.instant("by")
	case "jurisdiction":
		c.Allow, _ = f.texts("allow")
		c.Deny, _ = f.texts("deny")
	case "quality":
		f.need("metric")
		f.need("min")
		c.Metric = f.text("metric")
		if v := f.get("min"); v != nil {
			if v.kind != text && v.kind != number {
				f.ps.add(codeFieldType, v.at, f.path, "min must be a number, not %v", v.kind)
			}
			c.Min = v.text
		}
	case "rule":
		f.need("rule")
		c.Rule = f.text("rule")
	case "policy":
		f.need("policy")
		c.Policy = f.text("policy")
	default:
		c.Data = raw(f.get("data"))
	}
	return c
}
