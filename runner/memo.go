package runner

import "sync"

// memo keeps what was found out under a digest: what has a digest never changes, and so
// neither does what follows from it.
type memo[V any] struct {
	most  int // are kept before all are forgotten: a daemon may meet any number
	mu    sync.Mutex
	known map[string]V
}

func (m *memo[V]) get(digest string) (v V, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known = m.known[digest]
	return v, known
}

func (m *memo[V]) put(digest string, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= m.most {
		m.known = map[string]V{}
	}
	m.known[digest] = v
}
