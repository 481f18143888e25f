package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stormy are the faults of a storm: none takes longer than it must to be noticed.
const stormy = "killed and started again|sleeps for longer|told to end|reset|slow network|less than a lease|database killed|another policy|another manifest|another script|other keys"

// unequal are machines that are not what the others are, for a while.
var unequal = []fault{
	{"a server with another policy", func(b *bed, m *machine) { b.otherwise(m, b.text(m, "tipstaff.yaml", "do: allow", "do: deny")) }},
	{"a server with another manifest", func(b *bed, m *machine) {
		b.otherwise(m, b.text(m, "tipstaff.yaml", "      exec: {effect: once, timeout: 60s}\n", ""))
	}},
	{"a server with another script", func(b *bed, m *machine) { b.apart(m, b.text(m, "mark.sh", `"$1"`, `"of another script"`)) }},
	{"a server with other keys", func(b *bed, m *machine) {
		keys := filepath.Join(m.dir, ".tipstaff", "keys")
		b.apart(m, func(other bool) error { // without keys it makes some
			if other {
				return os.Rename(keys, keys+".was")
			}
			return errors.Join(os.RemoveAll(keys), os.Rename(keys+".was", keys))
		})
	}},
}

// otherwise has a server work in a workspace that is changed for a while, as in an upgrade.
func (b *bed) otherwise(m *machine, change func(other bool) error) {
	for _, other := range []bool{true, false} {
		m.drain()
		if err := change(other); err != nil {
			b.Error(err)
		}
		m.serve()
		time.Sleep(4 * time.Second)
	}
}

// apart is otherwise where what is made meanwhile belongs to that machine alone: nothing is.
func (b *bed) apart(m *machine, change func(other bool) error) {
	making := func(odd bool) {
		m.making.Lock()
		defer m.making.Unlock()
		m.odd = odd
	}
	making(true)
	b.otherwise(m, change)
	making(false)
}

// text changes a file of a machine, and changes it back.
func (b *bed) text(m *machine, name, old, with string) func(other bool) error {
	name = filepath.Join(m.dir, name)
	was, err := os.ReadFile(name)
	if err == nil && !strings.Contains(string(was), old) {
		err = fmt.Errorf("%s has no %q", name, old)
	}
	return func(other bool) error {
		if err != nil {
			return err
		}
		next := string(was)
		if other {
			next = strings.Replace(next, old, with, 1)
		}
		return os.WriteFile(name, []byte(next), 0o644) // it stays as executable as it is
	}
}

// A storm over three servers, with followers at each of them, who come and go: every run ends
// as it would have, nothing is resumed by hand, and every follower is told each record once.
// TIPSTAFF_STORM is how long it lasts.
func TestAStormLosesNothing(t *testing.T) {
	lasts := time.Minute
	if given := os.Getenv("TIPSTAFF_STORM"); given != "" {
		var err error
		if lasts, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	b := newBed(t, conditions{})
	crowd := &crowd{bed: b}
	b.made, b.unequal = crowd.follow, true
	const round = 40
	b.under(round*int(1+lasts/time.Minute), func() {
		for until := time.Now().Add(lasts); time.Now().Before(until); {
			b.fail(append(append([]fault{}, faults...), unequal...), stormy, round)
		}
	})
	crowd.wait()
	t.Logf("%d runs; %v", len(b.runs), b.failed)
}

// crowd are followers of the runs of a bed.
type crowd struct {
	*bed
	all sync.WaitGroup

	mu     sync.Mutex
	told   int64 // records, to all of them
	joined int   // connections
}

// follow has a run followed: at each machine by somebody who stays there, and by some who go
// from one to the next, so that they come ahead of what that one has read.
func (c *crowd) follow(run string) {
	for i := range 2 * len(c.machines) {
		c.all.Go(func() { c.attend(run, i) })
	}
}

// attend follows a run to its end.
func (c *crowd) attend(run string, i int) {
	at, last := c.machines[i%len(c.machines)], int64(0)
	for deadline := time.Now().Add(20 * time.Minute); ; {
		enough := 0
		if i >= len(c.machines) {
			enough, at = 1+rand.IntN(6), c.any()
		}
		over, err := c.read(run, at, &last, enough)
		if err != nil {
			c.Errorf("run %s, followed at %s: %v", run, at.name, err)
		}
		if over || err != nil {
			return
		}
		if time.Now().After(deadline) {
			c.Errorf("run %s, followed at %s, does not end after record %d", run, at.name, last)
			return
		}
		if enough == 0 {
			time.Sleep(200 * time.Millisecond) // it was cut off
		}
	}
}

// read follows a run after a record until it has ended, the connection is lost, or the follower
// has enough. An error is a stream that is not whole.
func (c *crowd) read(run string, at *machine, last *int64, enough int) (over bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.addr+"/runs/"+run+"/events", nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", strconv.FormatInt(*last, 10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil // it is asked again
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return true, c.whole(run, *last)
	case resp.StatusCode != http.StatusOK:
		return false, nil
	}
	c.mu.Lock()
	c.joined++
	c.mu.Unlock()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "event: end" {
			return true, c.whole(run, *last)
		}
		id, ok := strings.CutPrefix(lines.Text(), "id: ")
		if !ok {
			continue
		}
		seq, err := strconv.ParseInt(id, 10, 64)
		if err != nil || seq != *last+1 {
			return false, fmt.Errorf("after record %d comes %s", *last, id)
		}
		*last = seq
		c.mu.Lock()
		c.told++
		c.mu.Unlock()
		if enough--; enough == 0 {
			return false, nil
		}
	}
	return false, nil
}

// whole compares where a stream has ended with where its run has.
func (c *crowd) whole(run string, last int64) error {
	var now struct {
		Head int64 `json:"head_seq"`
	}
	for range 100 {
		if _, err := c.ask(c.any(), http.MethodGet, "/runs/"+run, nil, &now); err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if now.Head != last {
		return fmt.Errorf("the stream ends with record %d, the run with %d", last, now.Head)
	}
	return nil
}

// wait waits until everybody was told the end.
func (c *crowd) wait() {
	c.Helper()
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Logf("followers were told %d records over %d connections", c.told, c.joined)
}
