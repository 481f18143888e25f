package runner_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/supervisor"
)

// Each field whose line says what nil means means that.
func TestWhatIsNotSaidOfARunnerIsAsUsual(t *testing.T) {
	r, _ := usual(t)
	ctx := cli()
	for field, is := range map[string]func() bool{
		"Memory": func() bool {
			items, err := r.Memory.MemoryItems(ctx, tipstaff.MemoryQuery{})
			return err == nil && len(items) == 0
		},
		"Workers": func() bool {
			tasks, err := r.Workers.Tasks(ctx, tipstaff.TaskQuery{}, "")
			return err == nil && len(tasks) == 0
		},
		"Trusted": func() bool {
			keys, err := r.Trusted()
			return err == nil && len(keys) == 2 && keys[0] == r.Keys.User && keys[1] == r.Keys.Executor
		},
		"Self": func() bool { o := r.Self("k", "l"); return o.Pid == os.Getpid() && o.Kind == "k" && o.Launch == "l" },
		"Alive": func() bool {
			me, now := supervisor.Self("", ""), time.Now()
			gone := me
			gone.Start++
			return r.Alive(me, now, now) && !r.Alive(gone, now, now)
		},
		"Markers": func() bool { return slices.Equal(r.Markers("run", "launch"), supervisor.Markers("run", "launch")) },
		// One without its launch is nobody's: it is refused rather than ended.
		"Sweep":         func() bool { n, err := r.Sweep(ctx, map[string]string{"": "run"}); return n == 0 && err != nil },
		"SweepPrograms": func() bool { n, err := r.SweepPrograms(ctx, nil); return n == 0 && err == nil },
		"Stop":          func() bool { return r.Stop.Err() == nil },
		"Now":           func() bool { return time.Since(r.Now()) < time.Hour },
		"Origin":        func() bool { return r.Origin == "foreground" },
	} {
		t.Run(field, func(t *testing.T) {
			if !is() {
				t.Errorf("it is not")
			}
		})
	}
}
