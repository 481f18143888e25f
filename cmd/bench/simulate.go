package main

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"regexp"
	"strconv"
	"time"
)

const schedules = 2000 // a second

var scheduleRate = regexp.MustCompile(`(\d+) schedules from seed \d+ in [^:]*: (\d+) a second`)

// measureSimulator: schedules of generated programs that the simulator tries on one
// core. It needs a bubble of the testing package, so it is run as the test that it is.
func measureSimulator(ctx context.Context, b *bench) ([]row, error) {
	cmd := osexec.CommandContext(ctx, "go", "test", "-trimpath", "-vet=off", "-count=1", "-run", "^TestSchedules$", "-v", "github.com/tipstaff/tipstaff/flow/simtest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "TIPSTAFF_SIM_SEED=1", "TIPSTAFF_SIM="+(time.Duration(b.rounds)*b.round).String())
	out, err := cmd.CombinedOutput()
	found := scheduleRate.FindSubmatch(out)
	if err != nil || found == nil {
		return nil, fmt.Errorf("%v\n%s", err, out)
	}
	rate, _ := strconv.ParseFloat(string(found[2]), 64)
	return []row{{figure: "schedules that the simulator tries on one core", value: rate, measured: count(rate) + " a second",
		bound: goal("≥ "+count(schedules), rate >= schedules)}}, nil
}
