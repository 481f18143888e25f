package scale

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between a machine and a database, or Temporal, and can be told to fail.
type proxy struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	delay  time.Duration // of what goes either way
	silent chan struct{} // until it is closed, what lies behind is gone without a word
	ended  chan struct{}
	conns  map[*net.TCPConn]bool
}

// closed is what a proxy has for silence that it does not keep.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func newProxy(t *testing.T, host, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[*net.TCPConn]bool{}, silent: closed, ended: make(chan struct{})}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		close(p.ended)
		p.reset()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.join(near.(*net.TCPConn))
	}
}

// join carries bytes both ways until either end is closed; then both are.
func (p *proxy) join(near *net.TCPConn) {
	far, err := net.Dial("tcp", p.to)
	if err != nil { // nobody listens there, which the other end is to see
		_ = near.SetLinger(0)
		near.Close()
		return
	}
	ends := []*net.TCPConn{near, far.(*net.TCPConn)}
	p.mu.Lock()
	for _, c := range ends {
		p.conns[c] = true
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.carry(ends[0], ends[1]) })
	both.Go(func() { p.carry(ends[1], ends[0]) })
	both.Wait()
	p.mu.Lock()
	for _, c := range ends {
		delete(p.conns, c)
	}
	p.mu.Unlock()
}

// parcel is some bytes, and when they are to arrive.
type parcel struct {
	bytes []byte
	due   time.Time
}

func (p *proxy) carry(from, to *net.TCPConn) {
	defer from.Close()
	defer to.Close()
	line := make(chan parcel, 1024)
	go func() {
		defer close(line)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			p.mu.Lock()
			due := time.Now().Add(p.delay)
			p.mu.Unlock()
			if n > 0 {
				line <- parcel{buf[:n], due}
			}
			if err != nil {
				return
			}
		}
	}()
	defer p.hush() // neither end hears of the other's
	for b := range line {
		time.Sleep(time.Until(b.due))
		p.hush()
		if _, err := to.Write(b.bytes); err != nil {
			from.Close()
			for range line { // the reader ends
			}
			return
		}
	}
}

// slow has everything arrive later, either way.
func (p *proxy) slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// cut has nothing arrive any more, or again.
func (p *proxy) cut(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if off {
		p.silent = make(chan struct{})
	} else {
		close(p.silent)
	}
}

// hush does not return while what lies behind is gone.
func (p *proxy) hush() {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	select {
	case <-silent:
	case <-p.ended:
	}
}

// reset breaks all connections off.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0) // the other end is told by a reset
		_ = c.Close()
	}
}
