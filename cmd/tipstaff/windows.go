//go:build windows

package main

import _ "embed"

// Nothing is embedded: no file has this name, which is what the go command says before it compiles
// anything. Without it there are pages of errors, the first of them of some package far below.
//
//go:embed "Tipstaff does not run on Windows itself; install it in WSL2, where it is a Linux program"
var _ string
