package rpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/tipstaff/tipstaff"
)

// What strangers may cost: connections that have not shown a token.
const (
	maxConns     = 1024     // of anybody
	strangerSays = 64 << 10 // bytes that are read while a stranger's calls are open
	strangerCall = 1 << 10  // and so many more for each call, so that somebody can ask for years whether the server is there
)

// limitedListener keeps strangers small. Of a call whose caller is not known
// nothing is kept (see enter), save where anybody may make it: then the connection may
// say no more than such calls need.
type limitedListener struct {
	net.Listener
	peer func(net.Conn) func() []string

	mu    sync.Mutex
	conns []*conn // the oldest first
}

// Accept takes in a connection. Where there are too many, the oldest stranger goes;
// where there is none, whoever came last.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, listener: l}
		if l.admit(c) {
			if l.peer != nil {
				c.within = l.peer(accepted)
			}
			return c, nil
		}
		accepted.Close()
	}
}

func (l *limitedListener) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= maxConns {
		oldest := slices.IndexFunc(l.conns, func(other *conn) bool { return !other.known.Load() })
		if oldest < 0 {
			return false
		}
		l.conns[oldest].Conn.Close() // its reader sees that, and closes it in full
		l.conns = slices.Delete(l.conns, oldest, oldest+1)
	}
	l.conns = append(l.conns, c)
	return true
}

func (l *limitedListener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other *conn) bool { return other == c })
}

// conn is a connection of a limitedListener.
type conn struct {
	net.Conn
	listener *limitedListener
	known    atomic.Bool     // somebody has shown a token on it
	within   func() []string // of who holds the other end; nil: of none

	mu   sync.Mutex
	open int   // calls of strangers
	left int64 // bytes that are read while there are such
}

var errStranger = errors.New("a connection without a token has said too much")

func (c *conn) Read(p []byte) (int, error) {
	if c.known.Load() {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		return n, err
	}
	if c.left -= int64(n); c.left < 0 {
		return 0, errStranger
	}
	return n, err
}

// strange takes note of a stranger's call, which lasts as long as ctx.
func (c *conn) strange(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == 1 {
		c.left = strangerSays
	}
	c.left += strangerCall
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	})
}

func (c *conn) Close() error {
	c.listener.forget(c)
	return c.Conn.Close()
}

// RemoteAddr also says which connection it is the address of.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

type address struct {
	net.Addr
	conn *conn
}

// enter looks at the headers of a call, before there is room for anything else of it.
// A call without a token that is known here is refused, unless anybody may make it.
func (s *Server) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	var from *conn
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok {
			from = a.conn
		}
	}
	caller, err := s.authenticate(info.Header)
	switch {
	case err == nil:
		if from != nil {
			from.known.Store(true)
			if from.within != nil {
				ctx = tipstaff.Within(ctx, from.within)
			}
		}
		return tipstaff.WithCaller(ctx, caller), nil
	case public(info.FullMethodName):
		if from != nil {
			from.strange(ctx)
		}
		return ctx, nil
	}
	err = s.status(ctx, err)
	s.log(ctx, info.FullMethodName, err, 0)
	return nil, err
}
