package main

const (
	commandsAreMeant  = "An `allow` holds for a call that runs this command and nothing else, word for word"
	commandsAreFeared = "An `ask` or `deny` holds for a call that runs the command among others, or of which it cannot be said that it does not."
)

// Bugs against what rules mean that name a command.
var shellBugs = []bug{
	commandBug("command-begins", "TestACommandIsAllowedWordForWord", commandsAreMeant, "takes a text that begins with the command for the command", "policy/command.go",
		"slices.Equal(words[:len(c.Words)], c.Words) && (c.More || len(words) == len(c.Words))", "slices.Equal(words[:len(c.Words)], c.Words)"),
	commandBug("command-among-others", "TestACommandIsAllowedWordForWord", commandsAreMeant, "allows a text in which the command stands, whatever else does", "policy/command.go",
		"!slices.ContainsFunc(s.Commands, func(cmd ShellCommand) bool { return !cmd.Literal || !c.Is(cmd.words()) })",
		"slices.ContainsFunc(s.Commands, func(cmd ShellCommand) bool { return cmd.Literal && c.Is(cmd.words()) })"),
	commandBug("command-assigns", "TestACommandIsAllowedWordForWord", commandsAreMeant, "forgets that PATH=x before a command makes it another", "policy/command.go",
		"s.Substitutions+s.Assignments+s.Functions == 0", "s.Substitutions+s.Functions == 0"),
	commandBug("command-redirects", "TestACommandIsAllowedWordForWord", commandsAreMeant, "lets the command write wherever the text says", "policy/command.go",
		"(writable == nil || !writable(r.Path))", "false"),
	commandBug("command-in-one-shell", "TestTextsThatShellsReadDifferently", commandsAreMeant, "believes that every shell reads as bash does", "policy/shellguard/reader.go",
		"\t\tr.Ambiguous = true // sh runs what stands before it in the background\n", ""),
	commandBug("command-globs", "TestFurtherWords", commandsAreMeant, "takes file name patterns for words", "policy/shellguard/reader.go",
		"strings.IndexByte(\"*?[]{}^\\\\$`!\", c) >= 0", "strings.IndexByte(\"{}^\\\\$`!\", c) >= 0"),
	commandBug("command-unread-is-none", "TestACommandIsDeniedWhereverItMayStand", commandsAreFeared, "takes a text that cannot be read for one that runs nothing", "policy/command.go",
		"return !s.Parsed || s.Ambiguous || slices", "return slices"),
	commandBug("command-half-known", "TestACommandIsDeniedWhereverItMayStand", commandsAreFeared, "denies a command only where all of its words are known", "policy/command.go",
		"\tif cmd.Literal {\n\t\treturn c.Is(words)\n\t}\n", "\treturn cmd.Literal && c.Is(words)\n"),
	commandBug("command-stands-twice", "TestArgumentListsAreCommands", commandsAreMeant, "takes the last of two arguments of one name, where the tool may take the first", "policy/pointer.go",
		"\t\tcase found != nil:\n\t\t\treturn nil, fmt.Errorf(\"stands twice\")\n", ""),
}

func commandBug(id, test, says, slip, file, old, planted string) bug {
	return bug{id: id, page: "tools.md", says: says, slip: slip, file: file, old: old, new: planted,
		suites: []suite{{level: inProcess, pkg: "policy/shellguard", run: "^" + test + "$"}}}
}
