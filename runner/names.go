package runner

import "sync"

// names are those of programs, by digest: what has a digest never changes, and
// reading a whole document for its name would be most of what a status costs.
type names struct {
	mu    sync.Mutex
	known map[string]heading
}

// heading is what the status of a run shows of its program.
type heading struct {
	Name      string `json:"name"`
	MaxStages int64  `json:"max_stages"` // of a pipeline that says so; 0: the default, or it is none
}

// manyNames is how many are kept before all are forgotten: a daemon may meet any
// number of programs.
const manyNames = 10_000

func (n *names) get(digest string) (h heading, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, known = n.known[digest]
	return h, known
}

func (n *names) put(digest string, h heading) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) == manyNames {
		n.known = map[string]heading{}
	}
	n.known[digest] = h
}
