package main

import (
	"os"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/supervisor"
)

const shell = "/bin/sh"

// Attach lets hosts attach to a run that this process drives, and keeps those running
// that commands name, as processes of the run.
func (s *session) Attach(run tipstaff.ID, commands []string, tell func(line string)) (cli.Attached, error) {
	l, err := s.listen()
	if err != nil {
		return cli.Attached{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		l.Close()
		return cli.Attached{}, err
	}
	environ := slices.Concat(hostEnviron(), l.environ(), s.runner.MarkersOf(run))
	var kept []*supervisor.Kept
	for _, c := range commands {
		kept = append(kept, supervisor.Keep(supervisor.Command{Path: shell, Args: []string{shell, "-c", c}, Dir: dir, Env: environ},
			func(line string) { tell(firstWord(c) + ": " + tipstaff.Printable(line)) }))
	}
	return cli.Attached{Environ: l.environ(), Close: func() {
		for _, k := range kept {
			if err := k.Close(); err != nil {
				tell(err.Error())
			}
		}
		l.Close()
	}}, nil
}

// hostEnviron is our environment without what says whom a host serves: it is for us
// to say.
func hostEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, addressVariable+"=") || strings.HasPrefix(v, tokenVariable+"=")
	})
}

func firstWord(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 {
		return "host"
	}
	return words[0]
}
