package workspace

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/document"
)

// flags are what args of a type may not hold: what Tipstaff gives itself, and what
// concerns permissions, sandbox, session, output, MCP servers or settings. Anything else
// is passed on, whether the CLI knows it or not.
type flags struct {
	long   []string // without dashes
	short  string   // a letter each
	valued string   // short ones that are not reserved and take a value, which may follow at once
	config []string // of codex: keys that -c and --config may set, and what is below them
}

var everyCLI = []string{"help", "version"}

var reservedFlags = map[string]flags{
	TypeClaude: {
		long: []string{
			"print", "verbose", "output-format", "input-format", "include-partial-messages", "include-hook-events", "replay-user-messages", "json-schema", "prompt-suggestions",
			"permission-mode", "permission-prompt-tool", "dangerously-skip-permissions", "allow-dangerously-skip-permissions", "enable-auto-mode",
			"allowed-tools", "disallowed-tools", "tools", "add-dir", "agent", "agents",
			"setting-sources", "settings", "managed-settings", "plugin-dir", "plugin-url", "bare", "safe-mode", "init", "init-only", "maintenance",
			"mcp-config", "strict-mcp-config", "mcp-debug", "channels", "dangerously-load-development-channels",
			"model", "max-budget-usd", "session-id", "resume", "continue", "fork-session", "from-pr", "resume-session-at", "rewind-files", "no-session-persistence", "name",
			"worktree", "tmux", "teleport", "remote", "remote-control", "sdk-url", "ide", "chrome", "background",
		},
		short: "prcwnhv", valued: "d",
	},
	TypeCodex: {
		long: []string{
			"json", "experimental-json", "color", "output-schema", "output-last-message", "progress-cursor",
			"sandbox", "ask-for-approval", "full-auto", "dangerously-bypass-approvals-and-sandbox", "dangerously-bypass-hook-trust", "yolo", "search",
			"skip-git-repo-check", "ignore-user-config", "ignore-rules", "strict-config", "profile", "profile-v2", "enable", "disable",
			"cd", "add-dir", "model", "ephemeral", "last", "all", "remote", "remote-auth-token-env", "include-plan-tool", "no-alt-screen",
		},
		short: "msapCohV", valued: "ic",
		config: []string{
			"model_provider", "model_providers", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "model_context_window",
			"model_max_output_tokens", "model_auto_compact_token_limit", "model_supports_reasoning_summaries", "service_tier", "personality",
		},
	},
	TypeGemini: {
		long: []string{
			"output-format", "raw-output", "accept-raw-output-risk", "screen-reader", "prompt", "prompt-interactive", "startup-messages",
			"skip-trust", "sandbox", "sandbox-image", "yolo", "approval-mode", "policy", "admin-policy", "allowed-tools", "include-directories",
			"allowed-mcp-server-names", "extensions", "list-extensions", "acp", "experimental-acp", "isolated",
			"model", "resume", "session-id", "session-file", "list-sessions", "delete-session", "worktree", "fake-responses", "record-responses",
		},
		short: "ompisyelrwhv",
	},
	TypeOpencode: {
		long: []string{
			"format", "pure", "thinking", "model", "continue", "session", "fork", "share", "title", "agent", "command", "interactive", "replay", "replay-limit",
			"dangerously-skip-permissions", "auto", "yolo", "dir", "attach", "port", "hostname", "password", "username", "mdns", "mdns-domain", "cors",
		},
		short: "mcspuihv", valued: "f",
	},
	TypeCursor: {
		long: []string{
			"print", "output-format", "stream-partial-output", "trust", "force", "yolo", "sandbox", "approve-mcps", "auto-review", "mode", "plan",
			"model", "list-models", "resume", "continue", "background", "cloud", "fullscreen", "workspace", "worktree", "worktree-base", "skip-worktree-setup",
			"add-dir", "plugin-dir", "api-key", "header",
		},
		short: "pfbcwaHhv", valued: "e",
	},
	TypeScripted: {long: []string{"script", "session", "resume", "json", "workspace", "server"}, short: "h"},
}

// ReservedArgs are the places in args at which something stands that workers of a type
// may not be given, with the flag that is meant: whatever its spelling, and also by a
// beginning of its name.
func ReservedArgs(typ string, args []string) map[int]string {
	of, found := reservedFlags[typ], map[int]string{}
	for i, arg := range args {
		if flag := of.reserved(arg); flag != "" {
			found[i] = flag
			continue
		}
		if set, where, ok := of.setting(args, i); ok && !of.allows(set) {
			found[where] = "-c " + set
		}
	}
	return found
}

// reserved is the flag that an argument means, if it is one of those.
func (of flags) reserved(arg string) string {
	switch {
	case arg == "--": // what follows it would be a prompt
		return arg
	case strings.HasPrefix(arg, "--"):
		return of.reservedLong(arg[2:])
	case strings.HasPrefix(arg, "-"):
		for _, letter := range arg[1:] {
			switch {
			case strings.ContainsRune(of.short, letter):
				return "-" + string(letter)
			case strings.ContainsRune(of.valued, letter) || !isLetter(letter):
				return ""
			}
		}
	}
	return ""
}

// reservedLong compares without dashes and case, as some CLIs do, and takes --no-x for x.
func (of flags) reservedLong(written string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	name, _, _ := strings.Cut(written, "=")
	name, _, _ = strings.Cut(name, ".") // by which some set a member
	name = plain(name)
	meant := slices.DeleteFunc([]string{name, strings.TrimPrefix(name, "no")}, func(s string) bool { return s == "" })
	all := slices.Concat(of.long, everyCLI)
	for _, same := range []func(flag, s string) bool{func(flag, s string) bool { return flag == s }, strings.HasPrefix} {
		for _, flag := range all {
			if slices.ContainsFunc(meant, func(s string) bool { return same(plain(flag), s) }) {
				return "--" + flag
			}
		}
	}
	return ""
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// setting is the key that -c KEY=VALUE at i sets, and where the key stands.
func (of flags) setting(args []string, i int) (key string, where int, ok bool) {
	if of.config == nil {
		return "", 0, false
	}
	value, attached := "", false
	switch arg := args[i]; {
	case strings.HasPrefix(arg, "--c") && strings.HasPrefix("--config", strings.SplitN(arg, "=", 2)[0]):
		_, value, attached = strings.Cut(arg, "=")
	case strings.HasPrefix(arg, "-c"):
		value = strings.TrimPrefix(arg[2:], "=")
		attached = arg != "-c"
	default:
		return "", 0, false
	}
	if where = i; !attached {
		if where++; where == len(args) {
			return "", i, true
		}
		value = args[where]
	}
	key, _, _ = strings.Cut(value, "=")
	return strings.TrimSpace(key), where, true
}

var configKey = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// allows reports whether a key may be set. What is not known to be harmless is not: a
// CLI's settings say what it may do.
func (of flags) allows(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return configKey.MatchString(key) && slices.Contains(of.config, first)
}

// checkArgs reports arguments that a worker may not be given.
func (w *Worker) checkArgs(f *document.Fields) {
	checkEach(f, "args", checkArgument)
	v := f.Get("args")
	if v == nil || v.Kind != document.List || len(v.Items) != len(w.Args) {
		return
	}
	reserved := ReservedArgs(w.Type, w.Args)
	for i, item := range v.Items {
		if flag, ok := reserved[i]; ok {
			f.Report(CodeReserved, item.At, index("args", i), "%s is not for args: what Tipstaff gives a %s itself, and what concerns permissions, sandbox, session, output, MCP or settings, is set by the other fields, or not at all", flag, w.Type)
		}
	}
	if i := credentialArgument(slices.Concat([]string{""}, w.Args)); i > 0 {
		f.Report(CodeCredential, v.Items[i-1].At, index("args", i-1), "%s is a credential, which every user of the machine could see: put it into a variable and write env: {NAME: %sNAME}", index(f.PathOf("args"), i-1), ReferencePrefix)
	}
}
