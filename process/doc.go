// Package process has package supervisor start what others declare that they need
// started: the CLIs of workers, and git. It holds no logic of its own.
package process
