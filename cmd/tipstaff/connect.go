package main

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/rpc"
)

// connection is the runs of a server.
type connection struct{ client *rpc.Client }

func (c connection) Service() tipstaff.Service { return c.client }

func (c connection) Memory() tipstaff.Memory { return nil } // which the command line does not ask for

func (c connection) Sessions() tipstaff.Sessions { return nil } // which are on the server's machine
func (c connection) Tasks() tipstaff.Tasks       { return nil } // likewise

func (c connection) Changed() (<-chan struct{}, func()) { return nil, func() {} } // servers tell of one run at a time

func (c connection) Page() string { return "" } // the server's own, which it does not name

func (c connection) Attach(tipstaff.ID, []string, func(string)) (cli.Attached, error) {
	return cli.Attached{}, tipstaff.Errorf(tipstaff.InvalidArgument, "hosts attach to the server itself")
}

func (c connection) Exit(int, error) error { return nil } // nothing is driven here

func (c connection) Close() error { return c.client.Close() }

// connect is the runs of a server at HOST:PORT, grpcs://HOST:PORT with TLS, or unix:PATH.
// No token is sent in plain text to another machine.
func connect(_ context.Context, server, workspace string) (cli.Session, error) {
	addr, encrypted := strings.CutPrefix(server, "grpcs://")
	addr = strings.TrimPrefix(addr, "grpc://")
	host, _, err := net.SplitHostPort(addr)
	socket := tipstaff.SocketPath(addr) != ""
	if err != nil && !socket {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not the address of a server: %v", server, err).WithHint("write HOST:PORT, grpcs://HOST:PORT for TLS, or unix:PATH")
	}
	near := socket || tipstaff.Loopback(host)
	o := rpc.ClientOptions{Token: os.Getenv("TIPSTAFF_TOKEN"), Agent: "tipstaff/" + build.Version}
	switch {
	case encrypted:
		if o.TLS, err = clientTLS(); err != nil {
			return nil, err
		}
	case !near:
		return nil, tipstaff.Errorf(tipstaff.Refused, "%s is another machine, and the token would be sent in plain text", server).WithHint("use grpcs://%s, or a tunnel to this machine", addr)
	}
	if o.Token == "" && near {
		o.Token = workspaceToken(workspace)
	}
	if o.Token == "" {
		return nil, tipstaff.Errorf(tipstaff.Forbidden, "there is no token for the server %s", server).WithHint("set TIPSTAFF_TOKEN, or name the workspace of a server on this machine with --workspace")
	}
	client, err := rpc.Dial(addr, o)
	if err != nil {
		return nil, err
	}
	return connection{client}, nil
}

// clientTLS trusts the authorities of this machine, or those of the file that
// TIPSTAFF_SERVER_CA names.
func clientTLS() (c *tls.Config, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if file := os.Getenv("TIPSTAFF_SERVER_CA"); file != "" {
		if c.RootCAs, err = authorities(file); err != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "TIPSTAFF_SERVER_CA cannot be used: " + err.Error(), Err: err}
		}
	}
	return c, nil
}
