package main

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/rpc"
	"github.com/tipstaff/tipstaff/supervisor"
)

const shell = "/bin/sh"

// Variables by which a process that serves agents finds the one it serves.
const (
	addressVariable = "TIPSTAFF_ADDRESS="
	tokenVariable   = "TIPSTAFF_TOKEN="
)

// Attach lets hosts attach to a run that this process drives, and keeps those running
// that commands name, as processes of the run. Only this machine reaches the listener,
// and its token is good for nothing but to serve, and for no longer than it is open.
func (s *session) Attach(run tipstaff.ID, commands []string, tell func(line string)) (cli.Attached, error) {
	dir, err := os.Getwd()
	if err != nil {
		return cli.Attached{}, err
	}
	token := newSecret()
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "local", Secret: token, Scopes: []string{tipstaff.ScopeHost}})
	if err != nil {
		return cli.Attached{}, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return cli.Attached{}, err
	}
	server := rpc.New(s.Service(), s.runner.Hosts(), rpc.Options{Tokens: tokens})
	go func() { _ = server.Serve(listener) }() // it ends when the server is closed
	found := []string{addressVariable + listener.Addr().String(), tokenVariable + token}
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { // whom a host serves is for us to say, and what it trusts not for the run
		return strings.HasPrefix(v, addressVariable) || strings.HasPrefix(v, tokenVariable) || strings.HasPrefix(v, trustVariable+"=")
	})
	environ := slices.Concat(inherited, found, s.runner.MarkersOf(run))
	var kept []*supervisor.Kept
	for _, c := range commands {
		name := append(strings.Fields(c), "host")[0]
		kept = append(kept, supervisor.Keep(supervisor.Command{Path: shell, Args: []string{shell, "-c", c}, Dir: dir, Env: environ, Reap: true},
			func(line string) { tell(name + ": " + tipstaff.Printable(line)) }))
	}
	return cli.Attached{Environ: found, Close: func() {
		for _, k := range kept {
			if err := k.Close(); err != nil {
				tell(err.Error())
			}
		}
		server.Close(context.Background())
	}}, nil
}
