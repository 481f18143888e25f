package worker

import (
	"maps"
	"slices"
	"strings"
)

// commonVariables reach every CLI, if they are set.
var commonVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}

// Environ is the environment of a worker of a type: what is allowed of the parent's, what
// its configuration adds, and markers. Nothing else of the parent's reaches the CLI.
func Environ(typ string, parent []string, configured map[string]string, markers ...string) []string {
	allowed := slices.Clone(commonVariables)
	for _, r := range rowsOf(typ) {
		allowed = append(allowed, r.of.passed...)
	}
	values := map[string]string{}
	for _, v := range parent {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(allowed, name) || strings.HasPrefix(name, "LC_") {
			values[name] = value
		}
	}
	values["TERM"] = "dumb"
	maps.Copy(values, configured)
	for _, m := range markers {
		name, value, _ := strings.Cut(m, "=")
		values[name] = value
	}
	env := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
	}
	return env
}

// SetsVariable reports whether Tipstaff sets a variable of the environment of workers of a
// type itself, so that a configuration cannot.
func SetsVariable(typ, name string) bool {
	return name == "TERM" || slices.ContainsFunc(rowsOf(typ), func(r row) bool {
		return slices.Contains(r.of.sets, name) || slices.ContainsFunc(r.of.always, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
}

// Credentials are the values in the environment of a worker of a type that no log and no
// record may hold, by their names.
func Credentials(typ string, env []string) map[string]string {
	found := map[string]string{}
	for _, r := range rowsOf(typ) {
		for _, name := range r.of.passed {
			if value := lookup(env, name); value != "" && (strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_TOKEN")) {
				found[name] = value
			}
		}
	}
	return found
}
