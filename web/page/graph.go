package page

import "sync"

// layouts are those of pipelines that were drawn, by the digest of the program: a graph that
// is looked at never moves.
type layouts struct {
	mu   sync.Mutex
	kept map[string]Layout
}
