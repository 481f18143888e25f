package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newInit(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a tipstaff.yaml to begin with",
		Long: `Write a tipstaff.yaml, with comments, that lets an agent read the files of DIR: with
the models of vendors whose keys are in the environment. DIR is made if need be; in a
git repository .tipstaff/ is added to its .gitignore. An existing tipstaff.yaml stays as
it is. What init has written is trusted (tipstaff trust).`,
		Example: "  tipstaff init\n  tipstaff init ~/notes",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.workspace = args[0]
			}
			return a.init()
		},
	}
}

// begun is what init has done.
type begun struct {
	File      string `json:"file"`
	GitIgnore string `json:"gitignore,omitempty"` // the file to which .tipstaff/ was added
	Missing   string `json:"missing,omitempty"`   // the variable that must be set first
	Next      string `json:"next"`
}

func (a *app) init() error {
	dir := a.workspaceDir()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &usageError{message: err.Error()}
	}
	text, missing := a.env.Starter()
	done := begun{File: filepath.Join(dir, "tipstaff.yaml"), Missing: missing, Next: a.invocation("chat")}
	f, err := os.OpenFile(done.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &usageError{message: done.File + " is there already, and stays as it is", hint: "remove it first, or begin in another folder: tipstaff init DIR"}
	case err != nil:
		return &usageError{message: err.Error()}
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if done.GitIgnore, err = ignoreStore(dir); err != nil {
		return err
	}
	if err := a.accept(); err != nil { // it can be trusted later
		a.report(err)
	}
	return a.print(done, func() {
		fmt.Fprintln(a.out, "wrote "+clean(done.File))
		if done.GitIgnore != "" {
			fmt.Fprintln(a.out, "added .tipstaff/ to "+clean(done.GitIgnore))
		}
		if missing != "" {
			fmt.Fprintf(a.out, "no key of a vendor of models was found: set %s, or name another model in the file\n", missing)
		}
		fmt.Fprintf(a.out, "next:\n  %s\n", done.Next)
	})
}

// ignoreStore has git leave out the store of a workspace in a repository, and names the
// file that says so if that was changed.
func ignoreStore(dir string) (changed string, err error) {
	if !inRepository(dir) {
		return "", nil
	}
	file := filepath.Join(dir, ".gitignore")
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for l := range strings.Lines(string(text)) {
		if slices.Contains([]string{".tipstaff", ".tipstaff/", "/.tipstaff", "/.tipstaff/"}, strings.TrimSpace(l)) {
			return "", nil
		}
	}
	entry := ".tipstaff/\n"
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		entry = "\n" + entry
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(entry)
	return file, errors.Join(err, f.Close())
}

// inRepository reports whether a folder is below one that git looks after.
func inRepository(dir string) bool {
	dir, err := filepath.Abs(dir)
	for err == nil {
		git := filepath.Join(dir, ".git")
		_, head := os.Stat(filepath.Join(git, "HEAD"))
		if info, found := os.Stat(git); head == nil || found == nil && info.Mode().IsRegular() { // of a worktree it is a file; git itself wants no empty folder
			return true
		}
		if filepath.Dir(dir) == dir {
			return false
		}
		dir = filepath.Dir(dir)
	}
	return false
}
