//go:build !linux

package e2e

import "errors"

func raiseLoopback() error { return errors.ErrUnsupported }
