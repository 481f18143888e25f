package page

import (
	"net/http"
	"sync"
)

const (
	streamsOfSession = 8
	streamsInAll     = 200
)

// streams counts who follows.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[[nonceSize]byte]int
}

// enter takes a place for a stream of a session.
func (s *streams) enter(of *session) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= streamsInAll || s.of[of.nonce] >= streamsOfSession {
		return nil, &problem{status: http.StatusTooManyRequests, title: "Too many pages are live", text: "This one asks now and then."}
	}
	if s.of == nil {
		s.of = map[[nonceSize]byte]int{}
	}
	s.all++
	s.of[of.nonce]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[of.nonce]--; s.of[of.nonce] == 0 {
			delete(s.of, of.nonce)
		}
	}, nil
}

// count is how many there are.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
