//go:build !linux

package supervisor

import (
	"context"
	"errors"
)

// process is one that was found.
type process struct{}

func findMarked(map[string]string) ([]process, error) { return nil, errors.ErrUnsupported }

func endAll(context.Context, []process) (ended int, err error) { return 0, errors.ErrUnsupported }
