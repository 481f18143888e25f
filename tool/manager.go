package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/workspace"
)

// Manager keeps the connections of one driven run. Servers start on first need;
// one that fails affects only its own tools. It must be closed when the drive
// ends.
type Manager struct {
	manifest *workspace.Manifest
	lock     *Lock // as it is now; nil: not looked at
	links    map[string]*link
	spawned  atomic.Bool

	// Keep stores images and other media of results and returns their digest; nil: they
	// are not stored, and images stand in the results themselves.
	Keep func(ctx context.Context, data []byte) (string, error)

	credentials map[string]string // by the names of variables
	redactor    *redact.Redactor  // of all of them
}

// Spawned reports whether a process may have been started: by a call, or as a
// server.
func (m *Manager) Spawned() bool {
	for _, l := range m.links {
		l.mu.Lock()
		begun := l.current != nil
		l.mu.Unlock()
		if _, ok := l.server.(*stdioServer); ok && begun {
			return true
		}
	}
	return m.spawned.Load()
}

// Redact takes the credentials of all servers out of JSON, or of a text: in their
// place stand the references of the manifest. Everything that a call brings back
// must pass it before it is kept or shown.
func (m *Manager) Redact(data []byte) []byte { return m.redactor.Bytes(data) }

// Conceal adds credentials, by the names of variables, to those that Redact takes
// out: of models, say, which may come back from a tool as well. It must be called
// before the first call.
func (m *Manager) Conceal(values map[string]string) {
	maps.Copy(m.credentials, values)
	m.redactor = redact.New(m.credentials)
}

// NewManager makes a manager over the manifest as it is now. Servers that the
// manifest does not declare are never connected to. It starts nothing.
func NewManager(m *workspace.Manifest, servers map[string]Server) *Manager {
	manager := &Manager{manifest: m, links: map[string]*link{}, credentials: map[string]string{}}
	if m == nil {
		return manager
	}
	for name, config := range m.Servers {
		s, ok := servers[name]
		if !ok {
			continue
		}
		l := &link{name: name, server: s, slots: make(chan struct{}, max(config.MaxConcurrent, 1)),
			patience: cmp.Or(time.Duration(config.StartTimeout), workspace.DefaultStartTimeout)}
		l.ctx, l.cancel = context.WithCancel(context.Background())
		manager.links[name] = l
		if e, ok := s.(external); ok {
			maps.Copy(manager.credentials, e.credentials())
		}
	}
	manager.redactor = redact.New(manager.credentials)
	return manager
}

// Close ends all connections, at the same time, and returns when nothing is left
// that their servers started here.
func (m *Manager) Close() {
	var wg sync.WaitGroup
	for _, l := range m.links {
		wg.Go(l.close)
	}
	wg.Wait()
}

// catalog is what a server lists now.
func (m *Manager) catalog(ctx context.Context, server string) (*catalog, error) {
	l, ok := m.links[server]
	if !ok {
		return nil, fmt.Errorf("no server %q was given", server)
	}
	_, c, err := l.open(ctx, m.manifest)
	return c, err
}

// A server that ends is started again after 1, 2, 4 … 30 seconds, and after five
// restarts in ten minutes no more.
const (
	restartWindow = 10 * time.Minute
	maxRestarts   = 5
	firstDelay    = time.Second
	maxDelay      = 30 * time.Second
)

var (
	errClosed = errors.New("the drive of the run has ended")
	errDown   = fmt.Errorf("the server ended %d times in %s and is not started again", maxRestarts+1, restartWindow)
)

// link is one server and the connection to it, if there is one.
type link struct {
	name   string
	server Server
	slots  chan struct{} // one for each call at once
	ctx    context.Context
	cancel context.CancelFunc

	patience time.Duration // for the server to start and to answer

	mu      sync.Mutex
	current *dial
	ends    []time.Time // when connections ended or could not be made, and another was due
}

// dial is an attempt to connect, shared by all who wait for it.
type dial struct {
	done  chan struct{}
	conn  *connection
	err   error
	again time.Time // of a failed one: when the next may be made
}

// connection returns the open connection, or opens one.
func (l *link) connection(ctx context.Context) (*connection, error) {
	d, err := l.dial()
	if err != nil {
		return nil, err
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open returns the open connection and what its server lists. In the place of a session
// that the server has forgotten it opens another, once.
func (l *link) open(ctx context.Context, m *workspace.Manifest) (conn *connection, c *catalog, err error) {
	for range 2 {
		if conn, err = l.connection(ctx); err != nil {
			return nil, nil, err
		}
		if c, err = conn.tools(ctx, m); !errors.Is(err, errSessionLost) {
			break
		}
	}
	return conn, c, err
}

func (l *link) dial() (*dial, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, errClosed
	}
	if l.current != nil && l.current.usable() {
		return l.current, nil
	}
	delay, err := l.delay(time.Now())
	if err != nil {
		return nil, err
	}
	l.current = &dial{done: make(chan struct{})}
	go l.make(l.current, delay)
	return l.current, nil
}

// delay is how long the next start waits: not at all for the first one. After a
// lost connection calls wait for the restart. After a start that failed they
// fail with it, until the next may be made.
func (l *link) delay(now time.Time) (time.Duration, error) {
	switch last := l.current; {
	case last == nil:
		return 0, nil
	case last.err == nil && errors.Is(last.conn.ended(), errSessionLost):
		return 0, nil // the server is there
	case last.err == nil:
		return l.ended(now)
	case now.Before(last.again):
		return 0, last.err
	}
	return 0, nil
}

// usable reports whether a dial is under way or gave a connection that lives.
func (d *dial) usable() bool {
	select {
	case <-d.done:
		return d.err == nil && d.conn.ended() == nil
	default:
		return true
	}
}

// ended counts an end of the server and returns the delay before it may be started
// again. An end that no start follows is not counted, so that asking for a server that
// is down does not keep it down.
func (l *link) ended(now time.Time) (time.Duration, error) {
	for len(l.ends) > 0 && now.Sub(l.ends[0]) > restartWindow {
		l.ends = l.ends[1:]
	}
	n := len(l.ends)
	if n >= maxRestarts {
		return 0, errDown
	}
	l.ends = append(l.ends, now)
	return min(firstDelay<<n, maxDelay), nil
}

func (l *link) make(d *dial, delay time.Duration) {
	defer close(d.done)
	select {
	case <-time.After(delay):
	case <-l.ctx.Done():
		d.err = errClosed
		return
	}
	slow := fmt.Errorf("it did not answer within %s: start_timeout of the server %s in %s gives it longer", l.patience, l.name, workspace.FileName)
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.patience, slow)
	defer cancel()
	if d.conn, d.err = l.connect(ctx); d.err == nil {
		return
	}
	var own *jsonrpc.Error // a reason of the server's; else it is how the connection was ended when time was up
	if context.Cause(ctx) == slow && !errors.As(d.err, &own) {
		d.err = slow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait, err := l.ended(now)
	if err != nil {
		d.err, wait = err, restartWindow
	}
	d.again = now.Add(wait)
}

// connect opens the connection. It is on a goroutine of its own, where a panic would
// end the process.
func (l *link) connect(ctx context.Context) (c *connection, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("to connect panicked: %v", p)
		}
	}()
	s, err := l.server.connect(ctx, l.name)
	if err != nil {
		return nil, err
	}
	return &connection{session: s, server: l.name, listing: make(chan struct{}, 1)}, nil
}

func (l *link) close() {
	l.cancel()
	l.mu.Lock()
	d := l.current
	l.mu.Unlock()
	if d == nil {
		return
	}
	<-d.done
	if d.conn != nil {
		d.conn.close()
	}
}
