package runner

import "sync"

// names are those of programs, by digest: what has a digest never changes, and
// reading a whole document for its name would be most of what a status costs.
type names struct {
	mu    sync.Mutex
	known map[string]string
}

// manyNames is how many are kept before all are forgotten: a daemon may meet any
// number of programs.
const manyNames = 10_000

func (n *names) get(digest string) (name string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, known = n.known[digest]
	return name, known
}

func (n *names) put(digest, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) == manyNames {
		n.known = map[string]string{}
	}
	n.known[digest] = name
}
