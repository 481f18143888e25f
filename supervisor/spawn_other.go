//go:build !linux

package supervisor

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// wait returns when the program has ended, and its group with it. Here the end of
// a child cannot be seen without giving its pid back, so that for a moment the
// group is named by a pid that is nobody's.
func (p *Process) wait() error {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error says that nobody is left
	p.reaped = true
	return err
}

func bySpawn(string) matcher { return nil }
