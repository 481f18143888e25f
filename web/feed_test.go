package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// journal is a Service of one run, whose records the test writes.
type journal struct {
	tipstaff.Service
	id tipstaff.ID

	mu      sync.Mutex
	records []tipstaff.Event
	changed chan struct{}
	reads   int // of followers
	hide    int // the records after this one, from followers; 0: none
	ended   bool
}

func newJournal() *journal {
	return &journal{id: tipstaff.NewID(time.Now()), changed: make(chan struct{})}
}

// write appends records, of which the last may be the last of all.
func (j *journal) write(n int, final bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range n {
		e := tipstaff.Event{V: 1, Seq: int64(len(j.records) + 1), Kind: tipstaff.KindPlanStep, At: time.Now(), Run: j.id, Body: []byte(`{"text":"` + strings.Repeat("x", 500) + `"}`)}
		if final && i == n-1 {
			e.Kind, j.ended = tipstaff.KindIntentAttest, true
		}
		j.records = append(j.records, e)
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) Get(context.Context, tipstaff.ID) (tipstaff.Run, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	run := tipstaff.Run{ID: j.id, State: tipstaff.Executing, HeadSeq: int64(len(j.records))}
	if j.ended {
		run.State = tipstaff.Completed
	}
	return run, nil
}

func (j *journal) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		after, left := req.After, req.Limit
		if req.Follow {
			j.mu.Lock()
			j.reads++
			j.mu.Unlock()
		}
		for {
			j.mu.Lock()
			next, changed, ended := slices.Clone(j.records[after:]), j.changed, j.ended
			if req.Follow && j.hide > 0 {
				next, ended = slices.Clone(j.records[after:max(j.hide, int(after))]), false
			}
			j.mu.Unlock()
			for _, e := range next {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
				if left--; left == 0 {
					return
				}
			}
			if !req.Follow || ended {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// site is a server of one journal.
func site(t *testing.T, j *journal) (*Server, string) {
	t.Helper()
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: "the-token-of-alice"})
	if err != nil {
		t.Fatal(err)
	}
	s := New(tipstaff.Control{Runs: j, Now: time.Now}, Options{Tokens: tokens})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Quiesce()
		server.Close()
	})
	return s, server.URL + "/runs/" + j.id.String() + "/events"
}

// follow opens a stream.
func follow(t testing.TB, url string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer the-token-of-alice")
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	return res
}

// seqs are the ids of a stream, until it ends; each is told, if somebody wants to know.
func seqs(from io.Reader, tell func(string)) (ids []string, ended bool) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			if ids = append(ids, id); tell != nil {
				tell(id)
			}
		}
		ended = ended || lines.Text() == "event: end"
	}
	return ids, ended
}

// whole reports whether a stream has told every record from the first, each once.
func whole(ids []string, n int) error {
	if len(ids) != n {
		return fmt.Errorf("%d records of %d", len(ids), n)
	}
	for i, id := range ids {
		if id != fmt.Sprint(i+1) {
			return fmt.Errorf("record %d is %s", i+1, id)
		}
	}
	return nil
}

// A follower who hears nothing of many records holds nobody up; they are counted, and it then
// reads each of them once. Others are not kept waiting, and the journal is read once for all.
func TestADeafFollowerMissesNothing(t *testing.T) {
	j := newJournal()
	s, url := site(t, j)
	j.write(3, false)
	deaf, listening := follow(t, url), follow(t, url)
	heard := make(chan string, 100_000)
	done := make(chan error, 1)
	go func() {
		ids, ended := seqs(listening.Body, func(id string) { heard <- id })
		err := whole(ids, 40_003)
		if err == nil && !ended {
			err = fmt.Errorf("it does not end")
		}
		done <- err
	}()
	for range 3 {
		<-heard
	}
	// More than the buffers of both ends of the connection hold.
	began := time.Now()
	for i := range 400 {
		j.write(100, i == 399)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("writing took %v", took)
	}
	if err := <-done; err != nil {
		t.Errorf("the other follower: %v", err)
	}
	ids, ended := seqs(deaf.Body, nil)
	if err := whole(ids, 40_003); err != nil || !ended {
		t.Errorf("the deaf follower: %v, ended %t", err, ended)
	}
	if stats := s.Stats(); stats.Dropped == 0 || stats.Sent != 2*40_003 {
		t.Errorf("it is counted as %+v", stats)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reads != 1 {
		t.Errorf("the journal was followed %d times", j.reads)
	}
}

// What is written reaches a follower at once.
func TestFollowersHearAtOnce(t *testing.T) {
	j := newJournal()
	_, url := site(t, j)
	j.write(1, false)
	res := follow(t, url)
	heard := make(chan time.Time, 1)
	go seqs(res.Body, func(string) { heard <- time.Now() })
	<-heard
	median := time.Hour
	for try := 0; try < 20 && median > 5*time.Millisecond; try++ { // the machine may be busy with something else
		var took []time.Duration
		for range 101 {
			began := time.Now()
			j.write(1, false)
			took = append(took, (<-heard).Sub(began))
		}
		slices.Sort(took)
		median = took[len(took)/2]
	}
	if median > 5*time.Millisecond {
		t.Errorf("the median is %v", median)
	}
}

// A crowd that follows a run is told all of it, by one reader, and is gone when it has left.
func TestACrowdOfFollowers(t *testing.T) {
	const crowd, n = 200, 2000
	j := newJournal()
	s, url := site(t, j)
	j.write(1, false)
	var all sync.WaitGroup
	streams := make([]*http.Response, crowd)
	for i := range streams {
		streams[i] = follow(t, url)
	}
	for _, res := range streams {
		all.Go(func() {
			ids, ended := seqs(res.Body, nil)
			if err := whole(ids, n+1); err != nil || !ended {
				t.Errorf("a follower: %v, ended %t", err, ended)
			}
		})
	}
	for i := range n / 10 {
		j.write(10, i == n/10-1)
	}
	all.Wait()
	j.mu.Lock()
	reads := j.reads
	j.mu.Unlock()
	if reads != 1 {
		t.Errorf("the journal was followed %d times", reads)
	}
	for range 1000 { // handlers return a moment after their clients have the end
		if s.Stats().Subscribers == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if s.Stats().Subscribers != 0 || len(s.feeds.open) != 0 || len(s.feeds.users) != 0 {
		t.Errorf("%+v are left, with %d feeds", s.Stats(), len(s.feeds.open))
	}
}

// When the server goes down streams end at once, also those whose reader takes nothing.
func TestStreamsEndWithTheServer(t *testing.T) {
	took := time.Hour
	for try := 0; try < 5 && took > time.Second; try++ { // the machine may be busy with something else
		took = untilStreamsEnd(t)
	}
	if took > time.Second {
		t.Errorf("streams end after %v", took)
	}
}

func untilStreamsEnd(t *testing.T) time.Duration {
	t.Helper()
	j := newJournal()
	s, url := site(t, j)
	j.write(1, false)
	idle, deaf := follow(t, url), follow(t, url)
	j.write(40_000, false)
	for range 1000 { // until the one that reads nothing is stuck
		if s.Stats().Sent > 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_ = deaf
	began := time.Now()
	s.Quiesce()
	if _, ended := seqs(idle.Body, nil); ended {
		t.Error("a run that goes on is told as ended")
	}
	for s.Stats().Subscribers > 0 {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a stream goes on")
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// A reader whose next record the feed does not have is behind, however much it has beyond.
func TestAReaderBehindTheFeedIsNotAttached(t *testing.T) {
	f := &feed{feeds: &feeds{}, more: make(chan struct{}), readers: 1}
	for seq := int64(5); seq <= 9; seq++ {
		f.publish(frame{seq: seq, text: []byte{byte('0' + seq)}})
	}
	for seq, want := range map[int64]string{2: "behind", 3: "behind", 4: "56789", 6: "789", 8: "9", 9: ""} {
		got := "behind"
		if next, behind, _, _ := f.take(&place{seq: seq}); next != nil {
			got = string(next.text)
		} else if !behind {
			got = ""
		}
		if got != want {
			t.Errorf("who has had record %d is given %q, want %q", seq, got, want)
		}
	}
}

// Followers of a run whose records reach this server late, at any place and at any pace, each
// are told every record once, in its order: ahead of the feed, behind it, and behind what it
// keeps.
func TestFollowersMissNothing(t *testing.T) {
	for seed := range uint64(100) {
		dice := rand.New(rand.NewPCG(seed, 1))
		schedule := make([]byte, 20+dice.IntN(400))
		for i := range schedule {
			schedule[i] = byte(dice.Uint32())
		}
		followed(t, schedule)
	}
}

// The same, under schedules that nobody thought of.
func FuzzFollowers(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 12, 1, 2, 3, 0, 1, 2, 3})
	f.Add([]byte{0x10, 0x70, 3, 0x11, 0x31, 1, 9, 2, 10, 0x12, 1, 9, 17})
	f.Fuzz(followed)
}

func followed(t *testing.T, schedule []byte) {
	const readers = 4
	feed := &feed{feeds: &feeds{}, more: make(chan struct{}), readers: 1}
	stored := int64(0) // in the journal; the feed has read a part of it
	var places [readers]place
	var told [readers]int64
	hear := func(i int, b *batch) {
		for line := range strings.Lines(string(b.text)) {
			seq, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if seq > 0 && seq != told[i]+1 {
				t.Fatalf("after record %d follower %d is told record %d", told[i], i, seq)
			}
			told[i] = max(told[i], seq)
		}
		places[i].seq = max(places[i].seq, b.last)
	}
	read := func(n int64) { // the feed hears of so many more
		for ; n > 0 && feed.last < stored; n-- {
			seq := feed.last + 1
			feed.publish(frame{seq: seq, text: fmt.Appendf(nil, "%d\n", seq)})
		}
	}
	take := func(i int) (idle bool) {
		next, behind, _, _ := feed.take(&places[i])
		switch {
		case behind: // the store has it
			var b batch
			for seq := places[i].seq + 1; seq <= stored && b.records < 100; seq++ {
				b.add(frame{seq: seq, text: fmt.Appendf(nil, "%d\n", seq)})
			}
			hear(i, &b)
		case next != nil:
			hear(i, next)
			places[i].next = next.to
		default:
			return true
		}
		return false
	}
	for _, b := range schedule {
		n := int64(b >> 3)
		switch b & 7 {
		case 0:
			stored += n * n
		case 1:
			read(n * n)
		case 2:
			feed.publish(frame{text: []byte("0\n")})
		case 3: // one comes anew, from another server that has told it more
			i := n % readers
			told[i] = max(told[i], stored-n/readers)
			places[i] = place{seq: told[i]}
		default:
			take(int(n % readers))
		}
	}
	read(stored)
	for i := range readers {
		for !take(i) {
		}
		if told[i] != stored {
			t.Errorf("follower %d was told %d records of %d", i, told[i], stored)
		}
	}
}

// A server that learns late what another writes tells those who are ahead of it, and those who
// are not, all that they have not had.
func TestAFollowerAheadTakesNothingFromTheOthers(t *testing.T) {
	j := newJournal()
	_, url := site(t, j)
	j.write(4, false)
	j.hide = 4 // from who follows; the store has all
	behind := follow(t, url+"?after=0")
	heard := make(chan string, 100)
	whole := make(chan error, 3)
	listen := func(from io.Reader, first int, tell func(string)) {
		ids, ended := seqs(from, tell)
		for i, id := range ids {
			if id != fmt.Sprint(first+i) {
				whole <- fmt.Errorf("from record %d on it is told %v", first, ids)
				return
			}
		}
		if len(ids) != 21-first || !ended {
			whole <- fmt.Errorf("from record %d on it is told %v, ended %t", first, ids, ended)
			return
		}
		whole <- nil
	}
	go listen(behind.Body, 1, func(id string) { heard <- id })
	for range 4 {
		<-heard
	}
	j.write(8, false)
	ahead := follow(t, url+"?after=10") // which another server has told
	go listen(ahead.Body, 11, nil)
	second := follow(t, url+"?after=4")
	go listen(second.Body, 5, nil)
	j.mu.Lock()
	j.hide = 0
	j.mu.Unlock()
	j.write(8, true)
	for range 3 {
		if err := <-whole; err != nil {
			t.Error(err)
		}
	}
}
