package supervisor

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"
)

// A program that is kept is started again after keepFirst, then after twice as long
// each time, up to keepMost; and after keepFirst again once it has lived for a while.
const (
	keepFirst = 500 * time.Millisecond
	keepMost  = 10 * time.Second
	keepCalm  = 30 * time.Second
)

// toldLine is how much of a line is passed on at once.
const toldLine = 16 << 10

// Kept is a program that is started again whenever it ends, until it is closed.
type Kept struct {
	command Command
	tell    func(line string)
	closing chan struct{}
	ended   chan struct{}
	once    sync.Once
	err     error // of ending it; valid when ended is closed
}

// Keep starts a program and keeps it running. tell is given every line that it
// prints, and a word on each of its ends; it is never called twice at once.
func Keep(c Command, tell func(line string)) *Kept {
	var mu sync.Mutex
	k := &Kept{command: c, closing: make(chan struct{}), ended: make(chan struct{}), tell: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		tell(line)
	}}
	go k.keep()
	return k
}

// Close ends the program and everything that it started, and returns when nothing is
// left. It may be called more than once.
func (k *Kept) Close() error {
	k.once.Do(func() { close(k.closing) })
	<-k.ended
	return k.err
}

func (k *Kept) keep() {
	defer close(k.ended)
	for delay := keepFirst; ; delay = min(2*delay, keepMost) {
		began := time.Now()
		why, closed := k.runOnce()
		if closed {
			return
		}
		if time.Since(began) >= keepCalm {
			delay = keepFirst
		}
		k.tell(why + "; it is started again in " + delay.String())
		timer := time.NewTimer(delay)
		select {
		case <-k.closing:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// runOnce is one life of the program: why it ended, or that it was closed.
func (k *Kept) runOnce() (why string, closed bool) {
	p, err := Spawn(k.command)
	if err != nil {
		return err.Error(), false
	}
	var reading sync.WaitGroup
	for _, r := range []io.Reader{p.Stdout(), p.Stderr()} {
		reading.Go(func() { k.pass(r) })
	}
	select {
	case <-p.Exited():
		why = "it ended: " + p.State()
	case <-k.closing:
		closed = true
		p.Stop(Grace)
	}
	reading.Wait()
	if err := p.Close(); closed {
		k.err = err
	}
	return why, closed
}

// pass reads what the program prints, so that it never blocks.
func (k *Kept) pass(r io.Reader) {
	lines := bufio.NewReaderSize(r, toldLine)
	for {
		line, _, err := lines.ReadLine()
		if text := strings.ToValidUTF8(string(line), "�"); text != "" {
			k.tell(text)
		}
		if err != nil {
			return
		}
	}
}
