package delivery

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// A link that a worktree was given is no folder, so that a line like `node_modules/` of an ignore
// file does not name it, and git would call it untracked: builds that ask git would count the tree
// as changed, and a worker would add it.

// exclude has the repository in gitDir, of the files in dir, ignore what was put there and is not
// ignored already.
func (r *Repo) exclude(ctx context.Context, dir, gitDir string, placed []string) error {
	if len(placed) == 0 {
		return nil
	}
	s, err := r.scratch(dir, "")
	if err != nil {
		return err
	}
	defer s.close()
	untracked, err := s.notIgnored(ctx, dir, placed)
	if err != nil || len(untracked) == 0 {
		return err
	}
	file := filepath.Join(gitDir, "info", "exclude")
	text, err := readSmall(file)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for _, name := range untracked {
		if !strings.Contains(name, "\n") { // of which no line can speak
			text = append(text, excludeLine(name)...)
		}
	}
	own, err := os.OpenRoot(gitDir)
	if err != nil {
		return err
	}
	return errors.Join(put(own, filepath.Join("info", "exclude"), text), own.Close())
}

// excludeLine names one file of a working tree, and nothing else.
func excludeLine(name string) string {
	name = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
	if end := strings.TrimRight(name, " "); end != name { // git drops what stands there unescaped
		name = end + strings.Repeat(`\ `, len(name)-len(end))
	}
	return "/" + name + "\n"
}
