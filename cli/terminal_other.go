//go:build !unix

package cli

import (
	"errors"
	"os"
)

// rawMode is not to be had: lines are read as the terminal gives them.
func rawMode(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }
