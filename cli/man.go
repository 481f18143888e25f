package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Write the manual pages",
		Long: `Write a manual page for every command into DIR, which is made if need be. Without DIR
the page of tipstaff itself is printed.`,
		Example: `  tipstaff man ~/.local/share/man/man1
  tipstaff man | man -l -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := a.out.Write(manPage(cmd.Root(), a.env.Version))
				return err
			}
			return a.writeMan(cmd.Root(), args[0])
		},
	}
}

// manWritten is what man has done.
type manWritten struct {
	Files []string `json:"files"`
}

func (a *app) writeMan(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &usageError{message: err.Error()}
	}
	var done manWritten
	for _, cmd := range documented(root) {
		name := filepath.Join(dir, manName(cmd)+".1")
		if err := os.WriteFile(name, manPage(cmd, a.env.Version), 0o666); err != nil {
			return err
		}
		done.Files = append(done.Files, name)
	}
	return a.print(done, func() { fmt.Fprintf(a.out, "wrote %d pages into %s\n", len(done.Files), clean(dir)) })
}

// documented are a command and those below it that people may use.
func documented(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, documented(c)...)
		}
	}
	return all
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of a command, in the man macros, which every formatter knows.
func manPage(cmd *cobra.Command, v VersionInfo) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"%s\" \"tipstaff %s\" Tipstaff\n", roff(strings.ToUpper(manName(cmd))), manDate(v), roff(v.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.CommandPath()))
	usage := "COMMAND"
	if !cmd.HasAvailableSubCommands() {
		_, arguments, _ := strings.Cut(cmd.Use, " ")
		usage = strings.TrimSpace("[OPTION]... " + arguments)
	}
	fmt.Fprintln(&b, roff(usage))
	b.WriteString(".SH DESCRIPTION\n")
	if cmd.Long != "" {
		manText(&b, cmd.Long)
	} else {
		manText(&b, cmd.Short+".")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(c.Name()), roff(c.Short))
			}
		}
	}
	b.WriteString(".SH OPTIONS\n")
	if !cmd.HasParent() {
		cmd.InitDefaultVersionFlag()
		cmd.InitDefaultHelpFlag()
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	if cmd.HasParent() {
		if cmd.HasAvailableLocalFlags() {
			b.WriteString(".PP\n")
		}
		b.WriteString("Those of every command are in\n.BR tipstaff (1).\n")
	}
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		manVerbatim(&b, cmd.Example)
	}
	b.WriteString(".SH SEE ALSO\n")
	manSee(&b, cmd)
	return b.Bytes()
}

// manDate is the day of the commit, so that one commit makes the same pages every time.
func manDate(v VersionInfo) string {
	at, err := time.Parse(time.RFC3339, v.Date)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.DateOnly)
}

// manText writes paragraphs. What is indented or in columns stays as it is.
func manText(w io.Writer, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			fmt.Fprintln(w, ".PP")
		}
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") || strings.Contains(paragraph, "   ") {
			manVerbatim(w, paragraph)
			continue
		}
		for line := range strings.Lines(paragraph) {
			fmt.Fprintln(w, roff(strings.TrimSpace(line)))
		}
	}
}

func manVerbatim(w io.Writer, text string) {
	fmt.Fprintln(w, ".nf")
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, roff(strings.TrimRight(line, "\n")))
	}
	fmt.Fprintln(w, ".fi")
}

func manFlag(w io.Writer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	value, usage := pflag.UnquoteUsage(f)
	fmt.Fprint(w, ".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(w, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
	}
	fmt.Fprintf(w, "\\fB\\-\\-%s\\fR", roff(f.Name))
	if value != "" {
		fmt.Fprintf(w, " \\fI%s\\fR", roff(value))
	}
	fmt.Fprintf(w, "\n%s.\n", roff(usage))
}

// manSee names the pages above, beside which a command stands, and below.
func manSee(w io.Writer, cmd *cobra.Command) {
	var pages []*cobra.Command
	for c := cmd.Parent(); c != nil; c = c.Parent() {
		pages = append(pages, c)
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, c)
		}
	}
	for i, c := range pages {
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(w, ".BR %s (1)%s\n", roff(manName(c)), end)
	}
	if len(pages) == 0 {
		fmt.Fprintln(w, "https://github.com/tipstaff/tipstaff")
	}
}

// roffSymbols are characters that a formatter would take for a command, or print as others.
var roffSymbols = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// roff is text as it is written into a page: what is printed is the text, also where it begins
// with a dot, is copied into a shell, or is not ASCII.
func roff(text string) string {
	var b strings.Builder
	if strings.HasPrefix(text, ".") {
		b.WriteString(`\&`)
	}
	for _, r := range roffSymbols.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
