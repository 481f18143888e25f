package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	maxBody    = 4 << 20
	maxHeaders = 16 << 10
	maxConns   = 4096 // of anybody; the address is busy beyond
	maxStreams = 2048 // of one user

	headerTime  = 10 * time.Second // to read the headers of a request
	bodyTime    = 30 * time.Second // to read the rest of it
	writeTime   = 30 * time.Second // for a reader to take what is written
	idleTime    = 2 * time.Minute
	closingTime = 5 * time.Second // for requests that end by themselves
)

// APIVersion is what the OpenAPI document says: it moves when a client would break.
const APIVersion = "1"

// Version is what the binary says of itself.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Options are what a server works with besides the control plane. Tokens is required.
type Options struct {
	Tokens *tipstaff.Tokens
	// Hosts are names that the server is called by besides the address it listens at, with or
	// without a port. nil: it has none.
	Hosts []string
	TLS   *tls.Config // nil: plaintext
	// Peer finds the runs whose process holds the other end of a connection: see
	// [tipstaff.Within]. nil: it is of none.
	Peer func(net.Conn) func() []string
	// Log is told of every request, never of what it carries. nil: nobody is.
	Log *slog.Logger
	// Trace puts the span of whoever asks into the context. nil: requests belong to no trace.
	Trace func(ctx context.Context, get func(name string) string) context.Context
	// Folders are those of this machine, the inner ones first: clients are told what lies in
	// them by its relative name.
	Folders []string
	Version Version
	// Load is how many runs are driven, and how many wait for their turn. nil: nobody can tell.
	Load func() (driving, queued int)
	// Ready says why the server should not be given work. nil: nothing but its end keeps it from that.
	Ready func() error
	// Lacks says how many runs wait that the server leaves to others, and what it does not have
	// of what they need. nil: there are none.
	Lacks func() (runs int, why []string)
	// Untrusted says why nothing of the workspace is started; "": its user trusts it. nil: likewise.
	Untrusted func() string
	Metrics   http.Handler // answers /metrics; nil: there are none
	MCP       http.Handler // answers /mcp; nil: it is not there
	Page      Page         // answers /ui; nil: it is not there
	// Only is the one path that is answered besides those that need no token, by its first name.
	// "": all are.
	Only string
}

// Page is what people see. It knows who they are by itself.
type Page interface {
	http.Handler
	// Code makes a link that signs the bearer of a token in, once: its path on this server.
	Code(tipstaff.Bearer) (path string, expires time.Time)
	// At is where the page is for somebody who asks this server by a host, with its port.
	At(host string) string
}

// Server answers requests until it is closed.
type Server struct {
	control tipstaff.Control
	o       Options
	feeds   feeds
	http    http.Server
	began   time.Time

	// serving ends when nothing more is started, and followers are sent away.
	serving context.Context
	quiesce context.CancelFunc
}

// New makes a server over the control plane. Serve starts it.
func New(control tipstaff.Control, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{control: control, o: o, began: time.Now()}
	s.feeds.runs = control.Runs
	s.serving, s.quiesce = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: s, ConnContext: ofConn, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders, TLSConfig: o.TLS,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers requests that come by the listener until the server is closed.
func (s *Server) Serve(l net.Listener) (err error) {
	l = &limitedListener{Listener: l, peer: s.o.Peer}
	if s.o.TLS != nil {
		err = s.http.ServeTLS(l, "", "")
	} else {
		err = s.http.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Quiesce starts nothing more and sends followers away.
func (s *Server) Quiesce() { s.quiesce() }

// Close ends what is left. Requests have a while to end by themselves, unless ctx ends.
func (s *Server) Close(ctx context.Context) {
	s.Quiesce()
	ctx, cancel := context.WithTimeout(ctx, closingTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// Stats are what followers have been sent.
type Stats struct {
	Subscribers int64 `json:"subscribers"`
	Sent        int64 `json:"sent"`    // records
	Dropped     int64 `json:"dropped"` // from the buffers of those who did not keep up, who read them from the store
}

// Stats tells.
func (s *Server) Stats() Stats {
	return Stats{s.feeds.subscribers.Load(), s.feeds.sent.Load(), s.feeds.dropped.Load()}
}

// limitedListener takes so many connections at once.
type limitedListener struct {
	net.Listener
	peer func(net.Conn) func() []string
	open atomic.Int64
}

// Accept turns away who comes when there is no room: those who are here have tokens, or ten
// seconds to show one.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConns {
			c := &countedConn{Conn: conn, open: &l.open}
			if l.peer != nil {
				c.within = l.peer(conn)
			}
			return c, nil
		}
		l.open.Add(-1)
		conn.Close()
	}
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
	within func() []string // of who holds the other end; nil: of none
}

// ofConn is the context of the requests of a connection.
func ofConn(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if c, ok := conn.(*countedConn); ok && c.within != nil {
		return tipstaff.Within(ctx, c.within)
	}
	return ctx
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
