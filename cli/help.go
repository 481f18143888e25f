package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// newHelp makes "help". Of a word that is not a command it says which commands mention it.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, before []string, typed string) (names []string, _ cobra.ShellCompDirective) {
			of, rest, err := cmd.Root().Find(before)
			if err == nil && len(rest) == 0 {
				for _, c := range of.Commands() {
					if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), typed) {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				if of == nil {
					of, rest = cmd.Root(), args
				}
				return noHelp(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// noHelp says that a word is not a command, and which command was perhaps meant or mentions it.
func noHelp(of *cobra.Command, words []string) error {
	unknown := noSuchCommand(of, words).(*usageError)
	if about := commandsAbout(of.Root(), words[0]); len(about) > 0 && !strings.HasPrefix(unknown.hint, "did you mean") {
		unknown.hint = "these mention it: " + strings.Join(about, ", ")
	}
	return unknown
}

// commandsAbout returns the commands whose help mentions a word.
func commandsAbout(cmd *cobra.Command, word string) (names []string) {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if strings.Contains(strings.ToLower(c.Short+" "+c.Long), strings.ToLower(word)) {
			names = append(names, c.CommandPath()+" --help")
		}
		names = append(names, commandsAbout(c, word)...)
	}
	return names
}
