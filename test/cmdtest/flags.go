package cmdtest

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// BuildFlags returns the flags that this test was compiled with, and the environment for a
// go command that takes them: it finds every package that the test has in the cache, and
// compiles none twice. Of several -gcflags only the last is recorded in a program, so the
// flags of the race detector are those that the Makefile exports, if it started the test.
func BuildFlags() (flags, env []string) {
	env = os.Environ()
	info, _ := debug.ReadBuildInfo()
	settings := info.Settings
	if made := strings.Fields(os.Getenv("RACE")); len(made) > 0 && slices.Contains(settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = made
		settings = slices.DeleteFunc(settings, func(s debug.BuildSetting) bool { return s.Key == "-race" || s.Key == "-gcflags" })
	}
	for _, s := range settings {
		switch s.Key {
		case "-race", "-gcflags", "-tags", "-trimpath":
			flags = append(flags, s.Key+"="+s.Value)
		case "CGO_ENABLED":
			env = append(env, s.Key+"="+s.Value)
		}
	}
	return flags, env
}
