package grpc

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// A daemon is killed when so many events of a run have been read. The next one takes
// the run up; whoever goes on from what it read last sees a run that nothing happened
// to, and no stage has ended twice.
func TestKilledWhileAPipelineRuns(t *testing.T) {
	cmdtest.SkipSweep(t)
	for _, seen := range []int{1, 4, 9, 17} {
		t.Run(fmt.Sprint("after event ", seen), func(t *testing.T) {
			t.Parallel()
			d := serve(t)
			c := d.client(d.addr)
			env := c.create("slow")
			before := c.execute(c.ctx(), env)
			if err := before.next(seen); err != nil {
				t.Fatal(err)
			}
			d.kill()
			d.start()
			if d.taken != 1 {
				t.Errorf("%d runs were taken up", d.taken)
			}
			wantWhole(t, d, env, before)
		})
	}
}

// A daemon that is told to stop ends its streams and says how far they were.
func TestTerminatedWhileAPipelineRuns(t *testing.T) {
	t.Parallel()
	d := serve(t)
	c := d.client(d.addr)
	env := c.create("slow")
	before := c.execute(c.ctx(), env)
	if err := before.next(7); err != nil {
		t.Fatal(err)
	}
	d.terminate()
	if err := before.rest(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if said := before.stream.Trailer().Get("tipstaff-last-seq"); !slices.Equal(said, []string{strconv.FormatInt(before.last(), 10)}) {
		t.Errorf("the trailer says %v, and the last event was %d", said, before.last())
	}
	d.start()
	if d.taken != 1 {
		t.Errorf("%d runs were taken up", d.taken)
	}
	wantWhole(t, d, env, before)
}

// wantWhole watches a run of the slow pipeline to its end, and compares with what was
// seen before.
func wantWhole(t *testing.T, d *daemon, env *pb.Envelope, before *tape) {
	t.Helper()
	c := d.client(d.addr)
	after := c.watch(env, before.last())
	if err := after.rest(); err != nil {
		t.Fatal(err)
	}
	all := c.watch(env, 0)
	if err := all.rest(); err != nil {
		t.Fatal(err)
	}
	// What a client reads in two parts is what the journal holds, from the first event
	// that an execution tells.
	held := story(all.events...)
	parts := story(append(slices.Clone(before.events), after.events...)...)
	if diff := cmp.Diff(held, parts); diff != "" {
		t.Errorf("something was missed, or told twice (-held +read):\n%s", diff)
	}
	wantSlow(t, all.events)
	if out, err := d.run("verify", all.events[0].RunId); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// wantSlow looks whether the slow pipeline came to its end, each visit once.
func wantSlow(t *testing.T, events []*pb.ExecutionEvent) {
	t.Helper()
	var want []string
	for visit := range turnsOfSlow {
		want = append(want, fmt.Sprintf("intent#%d", visit+1), fmt.Sprintf("critic#%d", visit+1))
	}
	if diff := cmp.Diff(want, finished(t, events)); diff != "" {
		t.Errorf("the stages ended otherwise (-want +got):\n%s", diff)
	}
	end := events[len(events)-1]
	if !end.Final || end.Envelope.GetTerminalReason() != "completed" || end.Envelope.Iteration != turnsOfSlow-1 || string(end.Envelope.Outputs["critic"]) != `{"verdict":"again"}` {
		t.Errorf("the end is %v", end)
	}
}
