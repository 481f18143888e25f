package postgres

import (
	"context"
	"time"
)

// listener hears what other processes notify, on a connection of its own.
type listener struct {
	db    *database
	stop  context.CancelFunc
	ctx   context.Context
	ended chan struct{}
}

func newListener(db *database) *listener {
	ctx, stop := context.WithCancel(context.Background())
	return &listener{db: db, ctx: ctx, stop: stop, ended: make(chan struct{})}
}

// run has the writer look whenever something is notified. While the connection is lost
// the writer's own polling does.
func (l *listener) run() {
	defer close(l.ended)
	for l.ctx.Err() == nil {
		l.hear()
		select {
		case <-time.After(time.Second):
		case <-l.ctx.Done():
		}
	}
}

func (l *listener) hear() {
	c, err := l.db.connect(l.ctx)
	if err != nil {
		return
	}
	defer func() { _ = c.close() }()
	if err := c.now(`LISTEN ` + channel); err != nil {
		return
	}
	if err := c.pipe.Close(); err != nil {
		return
	}
	for c.pg.WaitForNotification(l.ctx) == nil {
		l.db.writer.Nudge()
	}
}

func (l *listener) close() {
	l.stop()
	<-l.ended
}
