package workspace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// workerInherits are variables that every worker is passed, with those that begin with
// LC_.
var workerInherits = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
}

// workerVariables are those of one type.
var workerVariables = map[string]struct {
	credentials []string // passed if set, and kept out of records
	passed      []string // passed if set
	own         []string // set by Tipstaff
}{
	TypeClaude: {
		credentials: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		passed:      []string{"ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR"},
		own:         []string{"DISABLE_AUTOUPDATER", "IS_SANDBOX"},
	},
	TypeCodex: {
		credentials: []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
		passed:      []string{"OPENAI_BASE_URL", "CODEX_HOME"},
	},
	TypeGemini: {
		credentials: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		passed:      []string{"GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"},
		own:         []string{"GEMINI_CLI_HOME"},
	},
	TypeOpencode: {own: []string{"OPENCODE_CONFIG_CONTENT", "OPENCODE_DISABLE_AUTOUPDATE", "XDG_CONFIG_HOME"}},
	TypeCursor:   {credentials: []string{"CURSOR_API_KEY"}, own: []string{"CURSOR_CONFIG_DIR"}},
	TypeScripted: {},
}

// checkVariable: what Tipstaff sets would not be obeyed.
func (w *Worker) checkVariable(name string) error {
	if name == "TERM" || slices.Contains(workerVariables[w.Type].own, name) {
		return fmt.Errorf("%s is set by Tipstaff for workers of type %s", name, w.Type)
	}
	return checkVariable(name)
}

// WorkerEnviron is the environment of a worker's process, out of ours as NAME=value:
// a short list of names, its credentials, and what the manifest adds. What an invocation
// sets, its channel, its markers and its private folders, comes on top. A variable that
// the manifest refers to and that is not set is refused.
func (m *Manifest) WorkerEnviron(name string, environ []string) ([]string, error) {
	w, ok := m.Worker(name)
	if !ok {
		return nil, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker %s%s", tipstaff.Quote(name, 100), tipstaff.Suggest(name, m.WorkerNames()))
	}
	values, refused := secretsOf(w.references(), environ)
	if refused != nil {
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("worker %s: %s", name, refused.Message), Err: refused,
			Problems: []tipstaff.Problem{{Code: refused.Code, Path: "workers." + name + ".env", Message: refused.Message}}}
	}
	var env []string
	for _, pair := range environ {
		variable, _, _ := strings.Cut(pair, "=")
		if _, replaced := w.Env[variable]; !replaced && w.inherits(variable) {
			env = append(env, pair)
		}
	}
	for _, variable := range sortedKeys(w.Env) {
		env = append(env, variable+"="+Substitute(w.Env[variable], values))
	}
	return append(env, "TERM=dumb"), nil
}

func (w Worker) inherits(variable string) bool {
	of := workerVariables[w.Type]
	return slices.Contains(workerInherits, variable) || strings.HasPrefix(variable, "LC_") ||
		slices.Contains(of.credentials, variable) || slices.Contains(of.passed, variable)
}

// Credentials are the variables that hold what a worker of its type signs in with, as far
// as they are set here or configured; sorted.
func (w Worker) Credentials(environ []string) (names []string) {
	for _, name := range workerVariables[w.Type].credentials {
		if _, configured := w.Env[name]; configured || Lookup(environ, name) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Secrets are the values that may not stand in records of the worker, by the names of
// their variables, as far as they are set.
func (w Worker) Secrets(environ []string) map[string]string {
	values := map[string]string{}
	for _, name := range slices.Concat(w.references(), workerVariables[w.Type].credentials) {
		if value := Lookup(environ, name); len(value) >= LeastSecret {
			values[name] = value
		}
	}
	return values
}
