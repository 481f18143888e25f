//go:build !unix

package trust

import "os"

// open opens the file: access lists are those of its folder.
func open(name string) (*os.File, error) { return os.Open(name) }
