package scale

import (
	"os/exec"
	"sync"
)

// process is that of a server which is killed and started again.
type process struct {
	mu     sync.Mutex
	server *exec.Cmd
	ended  chan struct{}
}

func (p *process) begin(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // however it has ended
		close(ended)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.ended = c, ended
	return nil
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill is kill -9. Processes of its own end when they see that.
func (p *process) kill() {
	if p.running() {
		_ = p.server.Process.Kill() // it may have ended
		<-p.ended
	}
}
