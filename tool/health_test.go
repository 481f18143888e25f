package tool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// An idle server is asked every 30 seconds whether it is there. One that does not
// answer twice is given up, and the next call gets another; one that answers, be
// it with an error, or once late, is kept.
func TestIdleServerIsAskedWhetherItIsThere(t *testing.T) {
	silences := 0
	for name, c := range map[string]struct {
		ping  func(*wireCall)
		dials int
	}{
		"answers":       {func(w *wireCall) { w.result("{}") }, 1},
		"does not know": {nil, 1},
		"silent":        {func(*wireCall) {}, 2},
		"silent at once": {func(w *wireCall) {
			if silences++; silences%2 == 0 {
				w.result("{}")
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := okServer(echoTool)
				s.ping = c.ping
				b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
				defer b.manager.Close()
				before := s.dialled()
				call := func() {
					if _, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`)); err != nil {
						t.Error(err)
					}
				}
				call()
				time.Sleep(5 * time.Minute)
				call()
				if got := s.dialled() - before; got != c.dials {
					t.Errorf("there were %d connections, want %d", got, c.dials)
				}
			})
		})
	}
}
