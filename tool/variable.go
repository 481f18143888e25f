package tool

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// referencePrefix begins a reference to a variable of our environment.
const referencePrefix = "$env:"

var referenceForm = regexp.MustCompile(`\$env:([A-Za-z_][A-Za-z0-9_]*)`)

// leastSecret is the length from which a value can be found again in what a
// server says. A shorter one would be replaced where it stands by chance, so that
// it is refused instead.
const leastSecret = 8

// parseReferences are the variables that a text refers to, in order.
func parseReferences(text string) ([]string, error) {
	var names []string
	for _, found := range referenceForm.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	if len(names) != strings.Count(text, referencePrefix) {
		return nil, fmt.Errorf("%s must be followed by the name of a variable: letters, digits and _", referencePrefix)
	}
	return names, nil
}

// lookup finds a variable in an environment; "": it is not set, or empty.
func lookup(environ []string, name string) string {
	for _, pair := range environ {
		if n, value, _ := strings.Cut(pair, "="); n == name {
			return value
		}
	}
	return ""
}

// references are all variables that a server's configuration refers to, sorted.
func (c ServerConfig) references() []string {
	var texts []string
	for _, values := range []map[string]string{c.Env, c.Headers} {
		texts = slices.AppendSeq(texts, maps.Values(values))
	}
	return referencesIn(texts...)
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

// secrets are the values of a server's references.
func (c ServerConfig) secrets(environ []string) (map[string]string, *flow.Error) {
	return secretsOf(c.references(), environ)
}

// secretsOf are the values of variables. One that is not set, or too short to be
// kept out of records, is env_missing.
func secretsOf(names, environ []string) (map[string]string, *flow.Error) {
	values := map[string]string{}
	for _, name := range names {
		value := lookup(environ, name)
		switch {
		case value == "":
			return nil, refusal(CodeEnvMissing, detail{"variable": name}, "the variable %s is not set: the manifest refers to it", name)
		case len(value) < leastSecret:
			return nil, refusal(CodeEnvMissing, detail{"variable": name},
				"the variable %s has fewer than %d characters: so short a value could not be kept out of records; if it is no credential, a server gets it by inherit_env, and elsewhere it can be written out", name, leastSecret)
		}
		values[name] = value
	}
	return values, nil
}

// substitute puts the values of references in their place.
func substitute(text string, values map[string]string) string {
	return referenceForm.ReplaceAllStringFunc(text, func(reference string) string {
		return values[strings.TrimPrefix(reference, referencePrefix)]
	})
}

// passedOn are the names that every child gets to see, besides LC_*.
var passedOn = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// environment is all that a server's process gets to see: a short list of names,
// those the manifest adds, and the run's markers. ours is our own environment as
// NAME=value.
func (c ServerConfig) environment(ours []string, values map[string]string, markers []string) []string {
	var env []string
	for _, pair := range ours {
		name, _, _ := strings.Cut(pair, "=")
		_, replaced := c.Env[name]
		listed := slices.Contains(passedOn, name) || strings.HasPrefix(name, "LC_") || slices.Contains(c.InheritEnv, name)
		if listed && !replaced {
			env = append(env, pair)
		}
	}
	for _, name := range sortedKeys(c.Env) {
		env = append(env, name+"="+substitute(c.Env[name], values))
	}
	return append(env, markers...)
}
