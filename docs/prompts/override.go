package prompts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxText is the size of a prompt in bytes beyond which it is surely a mistake.
const maxText = 256 << 10

// Override is the set with the files of a folder in the place of those of the same
// name. It says everything that is wrong: files that cannot be read or are no
// templates for their data, and texts under a name that no prompt has.
func (s Set) Override(folder fs.FS) (Set, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err // its path is within the folder, which has a name of its own
		}
		return Set{}, fmt.Errorf("the folder of prompts cannot be read: %w", err)
	}
	var faults []error
	for _, e := range entries {
		name := Name(e.Name())
		if !slices.Contains(Names(), name) {
			if isText(e) {
				faults = append(faults, fmt.Errorf("%s: there is no such prompt: the names are %s", name, list()))
			}
			continue
		}
		text, err := read(folder, name)
		if err == nil {
			err = check(name, text)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		*s.field(name) = text
	}
	if faults != nil {
		return Set{}, errors.Join(faults...)
	}
	return s, nil
}

// isText reports whether a file looks as if it should be a prompt. Others, and a
// README, may lie beside them.
func isText(e fs.DirEntry) bool {
	known := slices.Contains([]string{".md", ".yaml", ".yml"}, path.Ext(e.Name()))
	return known && !e.IsDir() && !strings.EqualFold(e.Name(), "README.md")
}

func list() string {
	names := make([]string, len(Names()))
	for i, n := range Names() {
		names[i] = string(n)
	}
	return strings.Join(names, ", ")
}

func read(folder fs.FS, n Name) (string, error) {
	f, err := folder.Open(string(n))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxText:
		return "", fmt.Errorf("it has more than %d bytes", maxText)
	case !utf8.Valid(text):
		return "", errors.New("it is not UTF-8")
	}
	return string(text), nil
}

// check renders a template once, so that a fault shows now and not in the middle
// of a run.
func check(n Name, text string) error {
	if n == Toolkits { // whoever routes by them reads them
		return nil
	}
	_, err := RenderText(n, text, sample(n))
	return err
}
