package worker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Sources of a row.
const (
	Tested     = "tested"     // with the CLI itself
	Documented = "documented" // from the vendor's documentation, without a test
)

// Who makes the id of a session.
const (
	MadeByTipstaff = "tipstaff"
	MadeByCLI      = "cli"
)

// row is how the versions of one family of a CLI are called. A CLI is corrected here.
//
// In a command line {x} stands for the values of x, as many as there are, and {--flag x}
// for the flag and its value, or for nothing if x has none. The prompt is in none of them:
// arguments are public.
type row struct {
	of     *cliType
	family string
	from   string // the lowest version
	below  string // the first version that was never looked at; "": there is none
	source string
	makes  string   // who makes the id of a session
	before []string // prints the id of a new session
	spawn  []string
	resume []string // nil: it cannot
	fork   []string // nil: it cannot
	help   []string // arguments that print the help
	flags  []string // that the help must show
}

// rows are in the order of types, then of versions.
var rows = []row{
	{
		of: &claude, family: "claude-2.1", from: "2.1.197", below: "2.2", source: Tested, makes: MadeByTipstaff,
		spawn:  append(claudeArgs[:len(claudeArgs):len(claudeArgs)], "--session-id", "{id}"),
		resume: append(claudeArgs[:len(claudeArgs):len(claudeArgs)], "--resume", "{id}"),
		fork:   append(claudeArgs[:len(claudeArgs):len(claudeArgs)], "--resume", "{source}", "--fork-session", "--session-id", "{id}"),
		help:   []string{"--help"},
		flags: []string{"--print", "--verbose", "--output-format", "--permission-mode", "--allowedTools", "--disallowedTools", "--setting-sources",
			"--mcp-config", "--strict-mcp-config", "--model", "--max-budget-usd", "--session-id", "--resume", "--fork-session", "--dangerously-skip-permissions"},
	},
	{
		of: &codex, family: "codex-0", from: "0.166", below: "1", source: Tested, makes: MadeByCLI,
		spawn: []string{"exec", "--json", "--skip-git-repo-check", "{settings}", "{posture}", "{channel}", "{-m model}", "{args}", "-"},
		resume: []string{"exec", "resume", "--json", "--skip-git-repo-check", "{settings}", "{posture}", "{channel}", "{-m model}", "{args}",
			"{id}", "-"},
		help:  []string{"exec", "--help"},
		flags: []string{"--json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules", "--config", "--model", "--dangerously-bypass-approvals-and-sandbox"},
	},
	{
		of: &gemini, family: "gemini-0", from: "0.61", below: "1", source: Tested, makes: MadeByTipstaff,
		spawn:  []string{"-o", "stream-json", "--skip-trust", "{posture}", "{-m model}", "{args}", "--session-id", "{id}"},
		resume: []string{"-o", "stream-json", "--skip-trust", "{posture}", "{-m model}", "{args}", "--resume", "{id}"},
		help:   []string{"--help"},
		flags:  []string{"--output-format", "--skip-trust", "--approval-mode", "--policy", "--model", "--session-id", "--resume"},
	},
	{
		of: &opencode, family: "opencode-1", from: "1.18", below: "2", source: Tested, makes: MadeByCLI,
		spawn:  []string{"run", "--pure", "--format", "json", "{-m model}", "{args}"},
		resume: []string{"run", "--pure", "--format", "json", "{-m model}", "{args}", "-s", "{id}"},
		help:   []string{"run", "--help"},
		flags:  []string{"--pure", "--format", "--model", "--session"},
	},
	{
		of: &cursor, family: "cursor", from: "2025", source: Documented, makes: MadeByCLI,
		before: []string{"create-chat"},
		spawn:  cursorArgs,
		resume: cursorArgs,
		help:   []string{"--help"},
		flags:  []string{"--print", "--output-format", "--trust", "--force", "--sandbox", "--approve-mcps", "--model", "--resume"},
	},
	{
		of: &scripted, family: "scripted", source: Tested, makes: MadeByTipstaff,
		spawn:  []string{"worker-agent", "--script", "{script}", "{args}", "--session", "{id}"},
		resume: []string{"worker-agent", "--script", "{script}", "{args}", "--resume", "{id}"},
	},
}

var (
	claudeArgs = []string{"-p", "--verbose", "--output-format", "stream-json", "{posture}", "--setting-sources", "{settings}",
		"--mcp-config", "{channel}", "--strict-mcp-config", "{--model model}", "{--max-budget-usd budget}", "{args}"}
	cursorArgs = []string{"-p", "--output-format", "stream-json", "--trust", "{posture}", "--approve-mcps", "{--model model}", "{args}",
		"--resume", "{id}"}
)

// Types are the names of the types of workers, in the order of the table.
func Types() []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.of.name)
	}
	return slices.Compact(names)
}

// Installed returns the types whose CLI look finds, as [exec.LookPath] does. It starts none.
func Installed(look func(program string) (string, error)) []string {
	return slices.DeleteFunc(Types(), func(typ string) bool {
		of := rowsOf(typ)[0].of
		if of.command == "" {
			return true
		}
		_, err := look(of.command)
		return err != nil
	})
}

// rowsOf are those of a type, the lowest version first.
func rowsOf(typ string) []row {
	var of []row
	for _, r := range rows {
		if r.of.name == typ {
			of = append(of, r)
		}
	}
	return of
}

// rowFor is the row for a version: that with the highest lower end which is not above it.
// known is false above all that was looked at.
func rowFor(of []row, version string) (r row, known, ok bool) {
	for _, candidate := range of {
		if compareVersions(version, candidate.from) >= 0 {
			r, ok = candidate, true
		}
	}
	return r, r.below == "" || compareVersions(version, r.below) < 0, ok
}

// compareVersions compares dotted numbers; what follows the numbers does not count.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// fill puts the values into a command line.
func fill(template []string, values map[string][]string) []string {
	var argv []string
	for _, t := range template {
		hole, ok := strings.CutPrefix(t, "{")
		if !ok {
			argv = append(argv, t)
			continue
		}
		hole = strings.TrimSuffix(hole, "}")
		flag, name, flagged := strings.Cut(hole, " ")
		if !flagged {
			argv = append(argv, values[hole]...)
		} else if v := values[name]; len(v) > 0 {
			argv = append(append(argv, flag), v...)
		}
	}
	return argv
}

// checkArgs refuses the first of args that a worker may not be given.
func (t *cliType) checkArgs(args []string) error {
	faults := t.argFaults(args)
	if len(faults) == 0 {
		return nil
	}
	i := slices.Min(slices.Collect(maps.Keys(faults)))
	return tipstaff.Errorf(tipstaff.InvalidArgument, "args[%d] of a %s worker, %s, %s", i, t.name, tipstaff.Quote(args[i], 80), faults[i]).
		WithHint("remove it; use the worker's model, posture, limits and settings")
}

const (
	notAFlag     = "is no flag: args hold flags and their values; the prompt goes to the standard input"
	reservedFlag = "is a flag that Tipstaff sets or that changes permissions, sandbox, session, output, MCP or settings"
)

// argFaults are the arguments of a worker's configuration that are Tipstaff's to set, or
// that concern permissions, sandbox, session, output, MCP or settings, in every spelling:
// why, by their places.
func (t *cliType) argFaults(args []string) map[int]string {
	faults := map[int]string{}
	allowed := func(flag, value string) bool { return t.checkValue == nil || t.checkValue(flag, value) }
	free := false // the previous flag may take this as its value
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		long := strings.HasPrefix(arg, "--")
		switch {
		case arg == "-" || arg == "--" || !strings.HasPrefix(arg, "-") && !free:
			free, faults[i] = false, notAFlag
		case !strings.HasPrefix(arg, "-"):
			if free = false; !allowed(args[i-1], arg) {
				faults[i] = reservedFlag
			}
		default:
			free = !joined
			reserved := long && t.reservedLong(flag) || !long && t.reservedShort(flag)
			attached := !long && len(flag) > 2 && !allowed(arg[:2], strings.TrimPrefix(arg[2:], "="))
			last := !joined && i == len(args)-1 && !allowed(flag, "")
			if reserved || joined && !allowed(flag, value) || attached || last {
				faults[i] = reservedFlag
			}
		}
	}
	return faults
}

// reservedLong compares a long flag as generous parsers do: without dashes and case, up to
// a dot, by a beginning of its name, and with a no before it.
func (t *cliType) reservedLong(flag string) bool {
	flag, _, _ = strings.Cut(flag, ".")
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	name := plain(flag)
	return slices.ContainsFunc(t.reservedFlags, func(r string) bool {
		rest, negated := strings.CutPrefix(name, "no")
		return strings.HasPrefix(r, "--") && (strings.HasPrefix(plain(r), name) || negated && rest != "" && strings.HasPrefix(plain(r), rest))
	})
}

// reservedShort reports whether a short flag, or a cluster of them, has one that is
// reserved. Only the first may have a value joined to it, so all are looked at.
func (t *cliType) reservedShort(flag string) bool {
	if slices.Contains(t.reservedFlags, flag) { // of CLIs with single-dash long flags, too
		return true
	}
	for i, letter := range flag[1:] {
		if slices.Contains(t.reservedFlags, "-"+string(letter)) {
			return true
		}
		if i == 0 && strings.ContainsRune(t.shortValues, letter) {
			return false // the rest is its value
		}
	}
	return false
}

// newest is the row of the newest family of a type.
func newest(typ string) (r row) {
	if rows := rowsOf(typ); len(rows) > 0 {
		r = rows[len(rows)-1]
	}
	return r
}

// makesID reports whether Tipstaff makes the ids of sessions of a type.
func makesID(typ string) bool { return newest(typ).makes == MadeByTipstaff }

// copiesSessions reports whether a CLI can begin a session as a copy of another.
func copiesSessions(typ string) bool { return newest(typ).fork != nil }
