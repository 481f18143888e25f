package agent

import "sync"

// inbox takes reports without ever making anybody wait.
type inbox struct {
	mu   sync.Mutex
	some sync.Cond
	list []any
}

func newInbox() *inbox {
	b := &inbox{}
	b.some.L = &b.mu
	return b
}

func (b *inbox) put(report any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, report)
	b.some.Signal()
}

// take waits for reports, and gives all there are. One goroutine takes.
func (b *inbox) take() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.list) == 0 {
		b.some.Wait()
	}
	list := b.list
	b.list = nil
	return list
}
