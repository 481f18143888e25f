package sqlite

import "sync"

// mailbox is an unbounded queue for one receiver. Senders never wait: an owner
// holds its own lock while it appends.
type mailbox[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	wake   chan struct{} // holds a token while there may be something to take
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{wake: make(chan struct{}, 1)}
}

// quiet reports that nothing waits here and more may come.
func (m *mailbox[T]) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.items) == 0 && !m.closed
}

// put reports false if the mailbox is closed.
func (m *mailbox[T]) put(items ...T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.items = append(m.items, items...)
	m.signal()
	return true
}

func (m *mailbox[T]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close lets the receiver take what is there and then end.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

// take removes the longest prefix that fits, at least one item if there is any.
// It reports false when the mailbox is empty and closed.
func (m *mailbox[T]) take(fits func(T) bool) (items []T, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.items) && (fits(m.items[n]) || n == 0) {
		n++
	}
	items = m.items[:n:n]
	m.items = m.items[n:]
	if len(m.items) == 0 {
		m.items = nil
	}
	return items, n > 0 || !m.closed
}
