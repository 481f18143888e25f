package store

import "sync"

// Mailbox is an unbounded queue for one receiver. Senders never wait: an owner
// holds its own lock while it appends.
type Mailbox[T any] struct {
	Wake chan struct{} // holds a token while there may be something to take

	mu     sync.Mutex
	items  []T
	closed bool
}

// NewMailbox returns an empty one.
func NewMailbox[T any]() *Mailbox[T] {
	return &Mailbox[T]{Wake: make(chan struct{}, 1)}
}

// quiet reports that nothing waits here and more may come.
func (m *Mailbox[T]) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.items) == 0 && !m.closed
}

// Put reports false if the mailbox is closed.
func (m *Mailbox[T]) Put(items ...T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.items = append(m.items, items...)
	m.signal()
	return true
}

func (m *Mailbox[T]) signal() {
	select {
	case m.Wake <- struct{}{}:
	default:
	}
}

// Close lets the receiver take what is there and then end.
func (m *Mailbox[T]) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

// Take removes the longest prefix that fits, at least one item if there is any.
// It reports false when the mailbox is empty and closed.
func (m *Mailbox[T]) Take(fits func(T) bool) (items []T, open bool) {
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
