package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Relay connects standard input and output of a CLI's MCP server to the channel of the
// invocation, which environ names. It returns when one of the two sides has ended.
//
// It is a program of its own because CLIs start their servers themselves, and because what
// it connects to must outlive none of them.
func Relay(ctx context.Context, in io.Reader, out io.Writer, environ []string) error {
	conn, from, err := dialChannel(ctx, environ)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, in)
		_ = conn.CloseWrite() // the channel answers what has arrived, and closes
		sent <- err
	}()
	_, err = io.Copy(out, from)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case serr := <-sent:
		err = errors.Join(err, serr)
	default: // the channel has closed first; standard input may stay open for ever
	}
	return err
}

// DialChannel is a connection to the channel of the invocation that environ names, for a
// worker that speaks MCP itself.
func DialChannel(ctx context.Context, environ []string) (io.ReadWriteCloser, error) {
	conn, from, err := dialChannel(ctx, environ)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.WriteCloser
	}{from, conn}, nil
}

func dialChannel(ctx context.Context, environ []string) (*net.UnixConn, *bufio.Reader, error) {
	socket := lookup(environ, socketVariable)
	if socket == "" {
		return nil, nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not in the environment: Tipstaff starts this for the workers that it runs", socketVariable)
	}
	token, err := readToken(socket)
	if err != nil {
		return nil, nil, err
	}
	return dialSocket(ctx, socket, token)
}

// readToken reads the token that lies beside a socket. The channel removes it when it is shown:
// a relay that ends before leaves it to the one that its CLI starts instead.
func readToken(socket string) (string, error) {
	file := beside(socket)
	token, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", tipstaff.Errorf(tipstaff.Unauthenticated, "there is no token at %s: the channel has had its connection, or its invocation has ended", file)
	case err != nil:
		return "", fmt.Errorf("the token of the channel cannot be read: %w", err)
	}
	return string(token), nil
}

// dialSocket shows a token to the channel at a socket.
func dialSocket(ctx context.Context, socket, token string) (*net.UnixConn, *bufio.Reader, error) {
	var d net.Dialer
	dialled, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("the channel cannot be reached; its invocation may have ended: %w", err)
	}
	conn := dialled.(*net.UnixConn)
	from := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	answer := ""
	if _, err = io.WriteString(conn, token+"\n"); err == nil {
		answer, err = readLine(from, 1000)
	}
	switch {
	case err != nil:
		_ = conn.Close()
		return nil, nil, fmt.Errorf("the channel did not answer: %w", err)
	case answer != accepted:
		_ = conn.Close()
		return nil, nil, tipstaff.Errorf(tipstaff.Unauthenticated, "the channel refuses: %s", answer)
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, from, nil
}
