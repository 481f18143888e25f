//go:build !linux && !darwin

package sqlite

// refuseNetwork: on this system there is no portable way to tell.
func refuseNetwork(string) error { return nil }
