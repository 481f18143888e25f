package cmdtest

import (
	"os"
	"runtime/debug"
)

// BuildFlags returns the flags that this test was compiled with, and the environment for a
// go command that takes them: it finds every package that the test has in the cache, and
// compiles none twice.
func BuildFlags() (flags, env []string) {
	env = os.Environ()
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		switch s.Key {
		case "-race", "-gcflags", "-tags", "-trimpath":
			flags = append(flags, s.Key+"="+s.Value)
		case "CGO_ENABLED":
			env = append(env, s.Key+"="+s.Value)
		}
	}
	return flags, env
}
