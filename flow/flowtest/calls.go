package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// call asks the world for something; unless told otherwise it gets input back.
func call(class flow.Class, key string, input any) flow.Call {
	return flow.Call{Key: key, Name: "work", Class: class, Input: flow.JSON(input)}
}

// reserving is a call that costs one of bound.
func reserving(class flow.Class, key, bound string) flow.Call {
	c := call(class, key, key)
	c.Reserve = flow.Use{bound: 1}
	return c
}

// retrying is a call that is tried again up to max times, almost at once.
func retrying(class flow.Class, key string, max int) flow.Call {
	c := call(class, key, key)
	c.Retry = flow.Retry{Max: max, Backoff: time.Millisecond, Factor: 1}
	return c
}

// question is a gate that offers yes and no.
func question(key string) flow.Gate {
	return flow.Gate{Key: key, Kind: "question", Question: "Shall it?", Subject: json.RawMessage(`{"it":1}`), Actions: []string{"yes", "no"}, Deny: "no"}
}

var yes = flow.Decision{Action: "yes", By: "local:cli", Via: "command"}

// do is Do for its error alone.
func do(fc flow.Context, c flow.Call) error {
	_, err := fc.Do(c)
	return err
}

// inOrder performs calls one after the other.
func inOrder(calls ...flow.Call) flow.Func {
	return func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		for _, c := range calls {
			if err := do(fc, c); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(`"done"`), nil
	}
}

// program is a flow without a value.
func program(f func(flow.Context) error) flow.Func {
	return func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		if err := f(fc); err != nil {
			return nil, err
		}
		return json.RawMessage(`"done"`), nil
	}
}

// Answers of the world.

// failing is a definite failure with this code.
func failing(code string) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: code, Answered: true}
	}
}

// failingUntil fails the attempts before n, to be retried.
func failingUntil(n int) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		if a.N < n {
			return flow.Done{}, &flow.Error{Code: "flaky", Retry: true}
		}
		return flow.Done{Value: a.Input}, nil
	}
}

// lost is a broken connection: nobody knows.
func lost(context.Context, flow.Attempt) (flow.Done, error) {
	return flow.Done{}, errors.New("connection lost")
}

// untilEnded answers only when its context ends, and then knows nothing.
func untilEnded(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
	<-ctx.Done()
	return flow.Done{}, ctx.Err()
}

// onceReleased answers when the channel is closed, whatever becomes of its
// context.
func onceReleased(release <-chan struct{}) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		<-release
		return flow.Done{Value: a.Input}, nil
	}
}

// cutOr answers when the channel is closed, and gives up when its context ends.
func cutOr(release <-chan struct{}) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		select {
		case <-release:
			return flow.Done{Value: a.Input}, nil
		case <-ctx.Done():
			return flow.Done{}, ctx.Err()
		}
	}
}
