package workspace

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// ReferencePrefix begins a reference to a variable of our environment.
const ReferencePrefix = redact.Prefix

var referenceForm = regexp.MustCompile(`\$env:([A-Za-z_][A-Za-z0-9_]*)`)

// LeastSecret is the length from which a value can be found again in what a
// server says. A shorter one would be replaced where it stands by chance, so that
// it is refused instead.
const LeastSecret = redact.Least

// CodeEnvMissing is the code of a variable that is referred to and not set.
const CodeEnvMissing = "env_missing"

// parseReferences are the variables that a text refers to, in order.
func parseReferences(text string) ([]string, error) {
	var names []string
	for _, found := range referenceForm.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	if len(names) != strings.Count(text, ReferencePrefix) {
		return nil, fmt.Errorf("%s must be followed by the name of a variable: letters, digits and _", ReferencePrefix)
	}
	return names, nil
}

// Lookup finds a variable in an environment; "": it is not set, or empty.
func Lookup(environ []string, name string) string {
	for _, pair := range environ {
		if n, value, _ := strings.Cut(pair, "="); n == name {
			return value
		}
	}
	return ""
}

// referencesIn are all variables that texts refer to, sorted.
func referencesIn(texts ...string) []string {
	var names []string
	for _, text := range texts {
		found, _ := parseReferences(text) // checked when it was read
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Secrets are the values of a server's references.
func (s Server) Secrets(environ []string) (map[string]string, *flow.Error) {
	var texts []string
	for _, values := range []map[string]string{s.Env, s.Headers} {
		texts = slices.AppendSeq(texts, maps.Values(values))
	}
	return secretsOf(referencesIn(texts...), environ)
}

// secretsOf are the values of variables. One that is not set, or too short to be
// kept out of records, is env_missing.
func secretsOf(names, environ []string) (map[string]string, *flow.Error) {
	values := map[string]string{}
	for _, name := range names {
		value, why := Lookup(environ, name), ""
		switch {
		case value == "":
			why = fmt.Sprintf("the variable %s is not set: the manifest refers to it", name)
		case len(value) < LeastSecret:
			why = fmt.Sprintf("the variable %s has fewer than %d characters: so short a value could not be kept out of records; if it is no credential, a server gets it by inherit_env, and elsewhere it can be written out", name, LeastSecret)
		}
		if why != "" {
			return nil, &flow.Error{Code: CodeEnvMissing, Message: why, NotSent: true, Detail: flow.JSON(map[string]string{"variable": name})}
		}
		values[name] = value
	}
	return values, nil
}

// Substitute puts the values of references in their place.
func Substitute(text string, values map[string]string) string {
	return referenceForm.ReplaceAllStringFunc(text, func(reference string) string {
		return values[strings.TrimPrefix(reference, ReferencePrefix)]
	})
}

// Environment is all that a server's process gets to see: a short list of names,
// those the manifest adds, and the run's markers. ours is our own environment as
// NAME=value.
func (s Server) Environment(ours []string, values map[string]string, markers []string) []string {
	var env []string
	for _, pair := range ours {
		name, _, _ := strings.Cut(pair, "=")
		_, replaced := s.Env[name]
		listed := builtin.Inherited(name) || slices.Contains(s.InheritEnv, name)
		if listed && !replaced {
			env = append(env, pair)
		}
	}
	for _, name := range sortedKeys(s.Env) {
		env = append(env, name+"="+Substitute(s.Env[name], values))
	}
	return append(env, markers...)
}

// values reads names with texts in which references may stand. A text without one
// under a name that speaks of credentials is taken for a credential.
func values(f *document.Fields, name string, checkName func(string) error) map[string]string {
	if f.Get(name) == nil {
		return nil
	}
	values := map[string]string{}
	f.Object(name, func(f *document.Fields) {
		for _, m := range f.Value.Members {
			f.Ignore(m.Key)
			if err := checkName(m.Key); err != nil {
				f.Report(document.CodeRange, m.At, m.Key, "%v", err)
				continue
			}
			v := f.Typed(m.Key, document.Text)
			switch {
			case v == nil:
			case strings.ContainsAny(v.Text, "\x00\r\n"):
				f.Report(document.CodeRange, v.At, m.Key, "%s has a line break or a NUL character", f.PathOf(m.Key))
			case !usable(f, m.Key, v):
			case len(referencesIn(v.Text)) == 0 && v.Text != "" && (speaksOfCredentials(m.Key) || looksRandom(v.Text)):
				literal(f, m.Key, v)
			default:
				values[m.Key] = v.Text
			}
		}
	})
	return values
}

// plainText reports whether a member is a text without blanks in which references may
// stand.
func plainText(f *document.Fields, name string) bool {
	v := f.Get(name)
	if v == nil || v.Kind != document.Text || !usable(f, name, v) {
		return false
	}
	blank := v.Text == "" || strings.ContainsAny(v.Text, "\x00\r\n\t ")
	if blank {
		f.Report(document.CodeRange, v.At, name, "%s is empty, or has a blank", f.PathOf(name))
	}
	return !blank
}

// secretText is plainText for a credential, which is never written out.
func secretText(f *document.Fields, name string) {
	if v := f.Get(name); plainText(f, name) && len(referencesIn(v.Text)) == 0 {
		literal(f, name, v)
	}
}

func literal(f *document.Fields, name string, v *document.Value) {
	f.Report(CodeCredential, v.At, name, "%s holds a credential: put it into a variable and write $env:NAME here", f.PathOf(name))
}

// usable reports malformed references and those in the notation of other programs,
// which would be passed on as they are.
func usable(f *document.Fields, name string, v *document.Value) bool {
	_, err := parseReferences(v.Text)
	variable := foreignReference(v.Text)
	switch {
	case err != nil:
		f.Report(document.CodeRange, v.At, name, "%s: %v", f.PathOf(name), err)
	case variable != "":
		f.Report(document.CodeRange, v.At, name, "%s: %s would be passed on as it is written: for the value of the variable %s write %s%s",
			f.PathOf(name), placeholder.FindString(v.Text), variable, ReferencePrefix, variable)
	}
	return err == nil && variable == ""
}

// placeholder is a way in which other programs write the value of a variable.
var placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}|^\$\(?([A-Za-z_][A-Za-z0-9_]*)\)?$`)

// foreignReference is the variable that a text means by what is no reference here;
// "": there is none.
func foreignReference(text string) string {
	parts := placeholder.FindStringSubmatch(text)
	switch {
	case parts == nil:
		return ""
	case parts[1] != "":
		return parts[1]
	}
	return parts[2]
}
