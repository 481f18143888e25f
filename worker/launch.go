package worker

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// launch is an invocation that is being prepared.
type launch struct {
	of      *cliType
	o       *Options
	stance  stance
	user    bool   // the CLI reads the settings of its user
	self    string // Tipstaff's own executable
	script  string
	env     []string
	values  map[string][]string // for the holes of the command line
	cleanup []func()
}

// set gives a hole of the command line its values.
func (l *launch) set(hole string, values ...string) { l.values[hole] = values }

func (l *launch) setenv(name, value string) {
	l.env = slices.DeleteFunc(l.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	l.env = append(l.env, name+"="+value)
}

func (l *launch) getenv(name string) string { return lookup(l.env, name) }

// lookup is a variable of an environment, the last of its name.
func lookup(env []string, name string) (value string) {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// pick chooses by the worker's settings.
func (l *launch) pick(none, user string) string {
	if l.user {
		return user
	}
	return none
}

// markers are the variables by which the processes of a run are found.
var markers = []string{"TIPSTAFF_RUN_ID", "TIPSTAFF_LAUNCH", "TIPSTAFF_SPAWN"}

// channelEnv are the variable that the relay of the channel needs, and the markers, for a CLI
// may hand its children only what it is told to. Configurations refer to them by name.
func channelEnv() []string {
	return append([]string{socketVariable}, markers...)
}

// write writes JSON into the private folder.
func (l *launch) write(name string, content object) (string, error) {
	return l.writeText(name, string(flow.JSON(content)))
}

func (l *launch) writeText(name, text string) (string, error) {
	file := filepath.Join(l.o.Folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	return file, writeNew(file, text)
}

// writeNew replaces a file by one that its owner alone can read, and never writes through a
// link or into what somebody has open.
func writeNew(file, text string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (l *launch) mkdir(name string) error { return os.MkdirAll(filepath.Join(l.o.Folder, name), 0o700) }

type object map[string]any

// orNull is raw, or null where there is none.
func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// merged is an object with some members replaced.
func merged(into any, with object) object {
	out := object{}
	if m, ok := into.(map[string]any); ok {
		maps.Copy(out, m)
	}
	maps.Copy(out, with)
	return out
}
