//go:build !unix

package cli

import (
	"errors"
	"io"
	"os"
)

// rawMode is not to be had: lines are read as the terminal gives them.
func rawMode(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

// echoOff is not to be had either.
func echoOff(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

// terminalInput is what is typed, as it comes: it cannot be dropped.
func terminalInput(f *os.File) io.Reader { return f }

// Nothing here is stopped by its terminal.
func notifyStop(chan<- os.Signal) {}
func ignoreStop(chan<- os.Signal) {}
func stopNow()                    {}
