// Package cli is the command line of Tipstaff: it translates arguments into
// calls of [tipstaff.Service] and records into something a person or a script
// can read.
//
// It holds no logic of runs, opens no store and names no engine: [Env] brings
// all of that, and only cmd fills it. Standard output carries data, standard
// error carries talk, so that a pipe never has to tell them apart.
//
// Start at [Main]. Commands are grouped in files by what they are about: run, do and
// chat start runs, drive.go follows and resumes them, show, decide, fork and verify
// are about runs that exist, workspace.go about the folder that holds them. What a
// command's arguments are follows from its use line.
//
// What a run looks like while it goes on is folded from its records by
// [tipstaff.View], drawn by view.go, and kept on the terminal by screen.go; follow.go
// joins the three. A turn that is talked about is shown by speech.go instead;
// chat_prompt.go is the prompt at a terminal, which console.go hears and lineedit.go
// edits. output.go is how text, tables and JSON are printed, exitcode.go the only
// place that knows exit codes, text.go the only way for foreign text to reach a
// terminal.
package cli
