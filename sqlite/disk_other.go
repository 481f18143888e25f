//go:build !linux && !darwin

package sqlite

import "errors"

// refuseNetwork: on this system there is no portable way to tell.
func refuseNetwork(string) error { return nil }

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
