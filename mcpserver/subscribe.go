package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// Times between two notifications about one document, and between a change and the first:
// the library enters a subscriber after the handler has returned.
const (
	notifyEvery = 500 * time.Millisecond
	notifyAfter = 25 * time.Millisecond
)

// topics are the documents that somebody follows, by URI.
type topics struct {
	sync.Mutex
	open map[string]*topic
}

// topic is one document with the sessions that follow it.
type topic struct {
	sessions map[*mcp.ServerSession]bool
	stop     context.CancelFunc
}

// subscribe has a session told of changes of a document that its caller may read.
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	if uri == docsURI {
		return nil // it never changes
	}
	if s.o.Unresolved != nil {
		return s.o.Unresolved
	}
	r, err := tipstaff.ParseResource(uri)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(tipstaff.WithCaller(context.Background(), tipstaff.CallerFrom(ctx)))
	began, changed := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		defer close(changed)
		first := true
		for err := range s.o.Control.Changes(following, r) {
			if first {
				began <- err
				first = false
				continue
			}
			select {
			case changed <- struct{}{}:
			default: // it is going to be told anyway
			}
		}
	}()
	if err := <-began; err != nil { // it is there, and the caller may see it
		stop()
		return err
	}
	s.topics.Lock()
	defer s.topics.Unlock()
	t := s.topics.open[uri]
	if t != nil { // somebody follows it already
		stop()
	} else {
		t = &topic{sessions: map[*mcp.ServerSession]bool{}, stop: stop}
		s.topics.open[uri] = t
		go s.notify(following, uri, changed)
	}
	if session := req.Session; !t.sessions[session] {
		t.sessions[session] = true
		go func() {
			_ = session.Wait() // however it has ended
			s.leave(uri, session)
		}()
	}
	return nil
}

// notify tells of changes of a document, of the last one in any case.
func (s *Server) notify(ctx context.Context, uri string, changed <-chan struct{}) {
	for range changed {
		if !pause(ctx, notifyAfter) {
			return
		}
		if err := s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			s.o.Log.ErrorContext(ctx, "a subscriber cannot be told", "uri", uri, "error", err.Error())
		}
		if !pause(ctx, notifyEvery-notifyAfter) {
			return
		}
	}
}

// pause reports whether the time has passed before ctx was over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *Server) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	s.leave(req.Params.URI, req.Session)
	return nil
}

// leave ends what a session follows. Nobody looks at a document that nobody follows.
func (s *Server) leave(uri string, session *mcp.ServerSession) {
	s.topics.Lock()
	defer s.topics.Unlock()
	t := s.topics.open[uri]
	if t == nil {
		return
	}
	delete(t.sessions, session)
	if len(t.sessions) == 0 {
		t.stop()
		delete(s.topics.open, uri)
	}
}
