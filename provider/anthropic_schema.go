package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// anthropicSchema is a schema in the subset that structured output takes, as the
// vendor's own clients make it; nil if there is none. What the subset leaves out
// stands in descriptions, for the model to read, and the loop checks it all the same.
func anthropicSchema(raw json.RawMessage) *schema {
	var object map[string]any // first, so that 3.0 becomes 3
	var s schema
	if json.Unmarshal(raw, &object) != nil || json.Unmarshal(flow.JSON(object), &s) != nil {
		return nil
	}
	if s.fit(); s.empty() {
		return nil
	}
	return &s
}

// schema holds the keywords of JSON Schema in the order of its specification, in
// which descriptions show them, too. Others are lost. Those with the tag subset are
// what structured output takes.
type schema struct {
	Schema     string             `json:"$schema,omitempty"`
	ID         string             `json:"$id,omitempty"`
	Anchor     string             `json:"$anchor,omitempty"`
	Ref        string             `json:"$ref,omitempty" subset:"yes"`
	DynamicRef string             `json:"$dynamicRef,omitempty"`
	Defs       map[string]*schema `json:"$defs,omitempty" subset:"yes"`
	Comment    string             `json:"$comment,omitempty"`

	AllOf []*schema `json:"allOf,omitempty" subset:"yes"`
	AnyOf []*schema `json:"anyOf,omitempty" subset:"yes"`
	OneOf []*schema `json:"oneOf,omitempty" subset:"yes"` // becomes anyOf
	Not   *schema   `json:"not,omitempty"`
	If    *schema   `json:"if,omitempty"`
	Then  *schema   `json:"then,omitempty"`
	Else  *schema   `json:"else,omitempty"`

	DependentSchemas     map[string]*schema `json:"dependentSchemas,omitempty"`
	PrefixItems          []*schema          `json:"prefixItems,omitempty"`
	Items                *schema            `json:"items,omitempty" subset:"yes"`
	Contains             *schema            `json:"contains,omitempty"`
	Properties           map[string]*schema `json:"properties,omitzero" subset:"yes"` // none is not the same as no member
	PatternProperties    map[string]*schema `json:"patternProperties,omitempty"`
	AdditionalProperties *schema            `json:"additionalProperties,omitempty" subset:"yes"`
	PropertyNames        *schema            `json:"propertyNames,omitempty"`

	Type              string              `json:"type,omitempty" subset:"yes"`
	Enum              []any               `json:"enum,omitempty" subset:"yes"`
	Const             any                 `json:"const,omitempty" subset:"yes"`
	MultipleOf        json.Number         `json:"multipleOf,omitempty"`
	Maximum           json.Number         `json:"maximum,omitempty"`
	ExclusiveMaximum  json.Number         `json:"exclusiveMaximum,omitempty"`
	Minimum           json.Number         `json:"minimum,omitempty"`
	ExclusiveMinimum  json.Number         `json:"exclusiveMinimum,omitempty"`
	MaxLength         *uint64             `json:"maxLength,omitempty"`
	MinLength         *uint64             `json:"minLength,omitempty"`
	Pattern           string              `json:"pattern,omitempty" subset:"yes"`
	MaxItems          *uint64             `json:"maxItems,omitempty"`
	MinItems          *uint64             `json:"minItems,omitempty" subset:"yes"` // of 0 and 1
	UniqueItems       bool                `json:"uniqueItems,omitempty"`
	MaxContains       *uint64             `json:"maxContains,omitempty"`
	MinContains       *uint64             `json:"minContains,omitempty"`
	MaxProperties     *uint64             `json:"maxProperties,omitempty"`
	MinProperties     *uint64             `json:"minProperties,omitempty"`
	Required          []string            `json:"required,omitempty" subset:"yes"`
	DependentRequired map[string][]string `json:"dependentRequired,omitempty"`

	Format           string  `json:"format,omitempty" subset:"yes"` // those of formats
	ContentEncoding  string  `json:"contentEncoding,omitempty"`
	ContentMediaType string  `json:"contentMediaType,omitempty"`
	ContentSchema    *schema `json:"contentSchema,omitempty"`
	Title            string  `json:"title,omitempty" subset:"yes"`
	Description      string  `json:"description,omitempty" subset:"yes"`
	Default          any     `json:"default,omitempty"`
	Deprecated       bool    `json:"deprecated,omitempty"`
	ReadOnly         bool    `json:"readOnly,omitempty"`
	WriteOnly        bool    `json:"writeOnly,omitempty"`
	Examples         []any   `json:"examples,omitempty"`

	always *bool // the schemas true and false, which have no keywords
}

// formats are those of strings that structured output takes.
var formats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}

// fit brings a schema and those within it into the subset.
func (s *schema) fit() {
	switch {
	case s == nil || s.always != nil:
		return
	case s.Ref != "":
		*s = schema{Ref: s.Ref} // nothing may stand beside it
		return
	}
	lost := s.takeLost()
	for _, d := range s.Defs {
		d.fit()
	}
	if len(s.AnyOf) == 0 {
		s.AnyOf = s.OneOf
	}
	s.OneOf = nil
	for _, choice := range s.AnyOf {
		choice.fit()
	}
	// A choice of which nothing is left would allow everything.
	s.AnyOf = slices.DeleteFunc(s.AnyOf, func(c *schema) bool { return c == nil || c.empty() })
	for _, part := range s.AllOf {
		part.fit()
	}
	if s.Type == "" && len(s.AnyOf)+len(s.AllOf)+len(s.Enum) == 0 && s.Const == nil {
		*s = schema{} // says nothing that the subset could hold
		return
	}
	s.fitType(lost)
	s.describe(lost)
}

// fitType adapts what belongs to one type alone.
func (s *schema) fitType(lost map[string]any) {
	switch s.Type {
	case "object":
		if s.Properties == nil && s.AdditionalProperties != nil {
			s.AdditionalProperties.fit() // a dictionary
			return
		}
		for _, p := range s.Properties {
			p.fit()
		}
		if s.Properties == nil {
			s.Properties = map[string]*schema{}
		}
		s.AdditionalProperties = &schema{always: new(false)}
	case "string":
		if s.Format != "" && !slices.Contains(formats, s.Format) {
			lost["format"], s.Format = s.Format, ""
		}
	case "array":
		s.Items.fit()
		if s.MinItems != nil && *s.MinItems > 1 {
			lost["minItems"], s.MinItems = *s.MinItems, nil
		}
	}
}

// takeLost takes away the keywords that the subset does not have.
func (s *schema) takeLost() map[string]any {
	lost := map[string]any{}
	for f, v := range reflect.ValueOf(s).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || f.Tag.Get("subset") != "" || v.IsZero() {
			continue
		}
		lost[name] = v.Interface()
		v.SetZero()
	}
	return lost
}

// describe tells the model what was taken away.
func (s *schema) describe(lost map[string]any) {
	if len(lost) == 0 {
		return
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		said = append(said, name+": "+show(lost[name]))
	}
	if s.Description != "" {
		s.Description += "\n\n"
	}
	s.Description += "{" + strings.Join(said, ", ") + "}"
}

func show(value any) string {
	switch value.(type) {
	case string, float64:
		return fmt.Sprint(value)
	}
	text, _ := json.Marshal(value) // it was JSON before
	return string(text)
}

func (s *schema) empty() bool { return reflect.ValueOf(*s).IsZero() }

// keywords is a schema that is neither true nor false.
type keywords schema

func (s *schema) UnmarshalJSON(raw []byte) error {
	if always := string(raw) == "true"; always || string(raw) == "false" {
		s.always = &always
		return nil
	}
	return json.Unmarshal(raw, (*keywords)(s))
}

func (s *schema) MarshalJSON() ([]byte, error) {
	if s.always != nil {
		return json.Marshal(s.always)
	}
	if s.empty() {
		return json.Marshal(true)
	}
	return json.Marshal((*keywords)(s))
}
