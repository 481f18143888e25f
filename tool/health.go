package tool

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	healthInterval = 30 * time.Second
	healthLimit    = 5 * time.Second
	healthMisses   = 2
	// stateless is the revision of the protocol since which there is no ping: a
	// server need not be there between two requests.
	stateless = "2026-07-28"
)

var errUnresponsive = errors.New("the server no longer answers")

// watchHealth asks an idle server now and then whether it is still there. One that
// twice does not answer is given up, so that the next call starts another instead
// of waiting for this one.
func (c *mcpSession) watchHealth() {
	if r := c.sdk.InitializeResult(); r == nil || r.ProtocolVersion >= stateless {
		return
	}
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for missed := 0; missed < healthMisses; {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		switch {
		case !c.wire.idle(): // a call in progress has its own limit
		case c.answers():
			missed = 0
		default:
			missed++
		}
	}
	c.wire.broke(errUnresponsive)
	c.close()
}

func (c *mcpSession) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), healthLimit)
	defer cancel()
	err := c.sdk.Ping(ctx, nil)
	var refused *jsonrpc.Error
	return err == nil || errors.As(err, &refused) // even no is an answer
}
