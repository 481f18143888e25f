package runner_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestRunsWaitForTheirTurn(t *testing.T) {
	b := newBed(t)
	b.Places(1)
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic", Effect: "read", Concurrency: 10})
	first, firstDone := b.beginRemote("read")
	call := b.call(h)
	second, secondDone := b.beginRemote("read")
	if got := b.get(second).Status; got != tipstaff.StatusQueued {
		t.Errorf("the second run is %s", got)
	}
	if call.Run != first {
		t.Errorf("run %s was asked for first", call.Run)
	}
	if err := h.Complete(cli(), given(call, `{}`)); err != nil {
		t.Fatal(err)
	}
	<-firstDone
	if err := h.Complete(cli(), given(b.call(h), `{}`)); err != nil {
		t.Fatal(err)
	}
	if driven := <-secondDone; driven.State != tipstaff.Completed {
		t.Errorf("the second run ended %+v", driven)
	}
}
