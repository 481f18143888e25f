package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// servedFile lists, line by line, the folders that daemons of a workspace were told to serve
// by their command line. Other processes of the workspace would not know of them, and let a
// run write what another then may start.
const servedFile = "served"

// NoteServed notes that a daemon serves a folder, given by its absolute path.
func NoteServed(store, folder string) error {
	if slices.Contains(ServedBy(store), folder) {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(store, servedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(folder + "\n")
	return errors.Join(err, f.Close())
}

// ServedBy are the folders that were noted in the folder of a store.
func ServedBy(store string) []string {
	text, _ := os.ReadFile(filepath.Join(store, servedFile)) // where it is not there, none was
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
}
