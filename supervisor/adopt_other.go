//go:build !linux

package supervisor

import (
	"context"
	"errors"
)

// Adopt is not to be had here: a descendant that left its group, session and
// environment behind cannot be found.
func Adopt() error { return errors.ErrUnsupported }

func (p *Process) begin() error { return p.cmd.Start() }

func (p *Process) forget() {}

func endAdopted(context.Context) (int, error) { return 0, nil }
