package main

import (
	"context"
	"net"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/rpc"
)

// Variables by which a process that serves agents finds the one it serves.
const (
	addressVariable = "TIPSTAFF_ADDRESS"
	tokenVariable   = "TIPSTAFF_TOKEN"
)

// hostListener lets hosts of agents attach to this process, while it drives a run whose
// stages are done elsewhere. Only this machine reaches it, and its token is good for
// nothing but to serve, and for no longer than it is open.
type hostListener struct {
	address, token string
	server         *rpc.Server
}

// listen opens a listener for the hosts that a run of the local user needs.
func (s *session) listen() (*hostListener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &hostListener{address: listener.Addr().String(), token: newSecret()}
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "local", Secret: l.token, Scopes: []string{tipstaff.ScopeHost}})
	if err != nil {
		return nil, err
	}
	l.server = rpc.New(s.Service(), s.runner.Hosts(), rpc.Options{Tokens: tokens})
	go func() { _ = l.server.Serve(listener) }() // it ends when the listener is closed
	return l, nil
}

// environ are the variables for a process that is to attach here.
func (l *hostListener) environ() []string {
	return []string{addressVariable + "=" + l.address, tokenVariable + "=" + l.token}
}

// Close lets hosts go.
func (l *hostListener) Close() { l.server.Close(context.Background()) }
