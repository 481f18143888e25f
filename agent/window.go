package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// What is known of tokens without counting them.
const (
	bytesPerToken  = 3
	tokensPerImage = 1600
	spareTokens    = 1024 // of a context window that are never planned for
	keptSteps      = 2    // the last ones, of which results stay whole
)

// weight is how large a part of a request is.
type weight struct{ bytes, images int64 }

func (w weight) plus(v weight) weight  { return weight{w.bytes + v.bytes, w.images + v.images} }
func (w weight) minus(v weight) weight { return weight{w.bytes - v.bytes, w.images - v.images} }

func (w weight) tokens() int64 {
	return (w.bytes+bytesPerToken-1)/bytesPerToken + w.images*tokensPerImage
}

func weigh(m Message) weight {
	w := weight{bytes: int64(len(m.Text) + len(m.Opaque))}
	for _, c := range m.Calls {
		w.bytes += int64(len(c.Name) + len(c.Arguments))
	}
	for _, c := range m.Content {
		w.bytes += int64(len(c.Text))
		if c.Type == ContentImage {
			w.images++
		}
	}
	return w
}

// weighFixed is what every request of a turn has.
func weighFixed(system string, tools []Offer) weight {
	w := weight{bytes: int64(len(system))}
	for _, t := range tools {
		w.bytes += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	return w
}

// Estimate is how many tokens a request has, as far as its bytes tell.
func Estimate(r Request) int64 {
	w := weighFixed(r.System, r.Tools)
	for _, m := range r.Messages {
		w = w.plus(weigh(m))
	}
	return w.tokens()
}

// EstimateText is how many tokens a text has, as far as its bytes tell.
func EstimateText(text string) int64 { return weight{bytes: int64(len(text))}.tokens() }

// window is how much of a conversation a model can be sent.
type window struct {
	model  string // whose reports count
	budget int64  // tokens
	fixed  weight // of system text and tools
	turn   int    // index of the user message that began the current turn
	share  bool   // Settings.ShareWindow
}

// cutting is a conversation as it is sent.
type cutting struct {
	messages []Message
	head     string // digest of the conversation that they are
	size     int64  // estimated tokens
	Cut
}

// fit cuts a conversation until it fits; the conversation itself stays as it is. It
// is a pure function of the window and the messages. The error is
// context_overflow.
//
// It first shortens results that the model has had time to use, then forgets what
// lies furthest back, by whole exchanges and then by whole groups of calls and
// results: a result without its call would be refused by every vendor, for good.
// Last, the newest results share what is left.
func (w window) fit(conv *conversation) (cutting, error) {
	size, all := conv.size(w)
	if size <= w.budget { // as most do
		return cutting{messages: slices.Clip(conv.messages), head: conv.head(), size: size}, nil
	}
	c := &cutter{window: w, entries: conv.entries, instead: make([]*entry, len(conv.entries)), group: w.turn + 1,
		weight: all, size: size, whole: all.tokens()}
	for _, next := range []func() bool{c.elide, c.dropExchange, c.dropGroup, c.shareRest, c.elideLargest} {
		for !c.fits() && next() {
		}
	}
	if !c.fits() {
		return cutting{}, &flow.Error{Code: CodeContextOverflow,
			Message: fmt.Sprintf("what must be sent is estimated at %d tokens, and %d fit", c.tokens(), w.budget)}
	}
	return c.result(), nil
}

// gauge knows the size of a request with all messages: what the model last reported
// for a part of it and an estimate of the rest.
//
// A report counts only if the request it is about was not cut, for else it tells
// nothing of this conversation. Whether it was follows from the messages before.
type gauge struct {
	window
	seen  int    // messages
	known int64  // tokens that the model last reported
	since weight // what was added after that
	all   weight
}

func (g *gauge) add(e *entry) {
	m := &e.message
	asked := g.tokens() // the size of the request that this message answered
	g.all, g.since = g.all.plus(e.weight), g.since.plus(e.weight)
	if m.Role == Assistant && m.Usage != nil && m.Model == g.model && asked <= g.budget {
		g.known, g.since = m.Usage.InputTokens+m.Usage.OutputTokens, weight{}
	}
	g.seen++
}

func (g *gauge) tokens() int64 { return g.known + g.since.tokens() }

// cutter cuts a conversation step by step. What it leaves out lies in two places:
// before the first exchange that is kept, and between the user message of the
// current turn and the first group that is kept.
type cutter struct {
	window
	entries []*entry
	instead []*entry // what is sent in the place of a result; nil: the result itself
	next    int      // the first message that elide has not looked at
	first   int      // where the exchanges begin that are kept
	group   int      // where the groups of the current turn begin that are kept

	weight weight
	size   int64 // of the whole
	whole  int64 // the same by estimate alone
	cut    bool
	shared int64 // bytes of text that each of the newest results may have; 0: all
}

func (c *cutter) fits() bool { return c.tokens() <= c.budget }

// tokens is the size of what is left. Nobody has reported on that, so it is
// estimated; where the estimate of the whole was too low, so is this one.
func (c *cutter) tokens() int64 {
	if !c.cut {
		return c.size
	}
	left := c.weight.tokens()
	if c.size > c.whole && c.whole > 0 {
		left = (left*c.size + c.whole - 1) / c.whole
	}
	return left
}

// elide shortens the oldest result that is long enough for that and older than the
// last steps.
func (c *cutter) elide() bool {
	for border := c.recent(); c.next < border; {
		i := c.next
		c.next++
		if short := c.entries[i].elision(); short != nil {
			c.replace(i, short)
			return true
		}
	}
	return false
}

// recent is where the last steps begin.
func (c *cutter) recent() int {
	steps := 0
	for i := len(c.entries) - 1; i >= 0; i-- {
		if c.entries[i].message.Role == Assistant {
			if steps++; steps == keptSteps {
				return i
			}
		}
	}
	return 0
}

// dropExchange leaves out the oldest user message with all that followed it.
func (c *cutter) dropExchange() bool {
	if c.first >= c.turn {
		return false
	}
	end := c.first + 1
	for end < c.turn && c.entries[end].message.Role != User {
		end++
	}
	c.drop(c.first, end)
	c.first = end
	return true
}

// dropGroup leaves out the oldest assistant message of the current turn with all
// that it led to, never the last.
func (c *cutter) dropGroup() bool {
	end := c.group + 1
	for end < len(c.entries) && c.entries[end].message.Role != Assistant {
		end++
	}
	if end >= len(c.entries) {
		return false
	}
	c.drop(c.group, end)
	c.group = end
	return true
}

func (c *cutter) drop(begin, end int) {
	for i := begin; i < end; i++ {
		c.weight = c.weight.minus(c.sent(i).weight)
	}
	c.cut = true
}

// shareRest shortens the newest results, the largest first: all have room for the same
// number of bytes, the greatest with which they fit.
func (c *cutter) shareRest() bool {
	if !c.share || c.shared > 0 {
		return false
	}
	longest := int64(0)
	for _, i := range c.newest() {
		longest = max(longest, int64(len(c.entries[i].text())))
	}
	c.shared = minResultBytes
	for above := longest; above-c.shared > 1; { // what has room for above does not fit
		if middle := c.shared + (above-c.shared)/2; c.fitsWith(middle) {
			c.shared = middle
		} else {
			above = middle
		}
	}
	done := false
	for _, i := range c.newest() {
		if short := c.entries[i].shortened(c.shared); short != nil {
			c.replace(i, newEntry(*short))
			done = true
		}
	}
	return done
}

// fitsWith says whether the request fits if each of the newest results has room for most
// bytes of text.
func (c *cutter) fitsWith(most int64) bool {
	trial := *c
	trial.cut = true
	for _, i := range c.newest() {
		if short := c.entries[i].shortened(most); short != nil {
			trial.weight = trial.weight.minus(c.entries[i].weight).plus(weigh(*short))
		}
	}
	return trial.fits()
}

// elideLargest puts a line in the place of the largest of the newest results: of one that
// has images, say, which cannot be shortened.
func (c *cutter) elideLargest() bool {
	if !c.share {
		return false
	}
	largest, most := -1, int64(0)
	for _, i := range c.newest() {
		if short := c.entries[i].elision(); short != nil && c.sent(i).weight.tokens() > max(most, short.weight.tokens()) {
			largest, most = i, c.sent(i).weight.tokens()
		}
	}
	if largest < 0 {
		return false
	}
	c.replace(largest, c.entries[largest].elision())
	return true
}

// newest are the results of the last group.
func (c *cutter) newest() []int {
	var list []int
	for i := len(c.entries) - 1; i > c.turn && c.entries[i].message.Role != Assistant; i-- {
		if c.entries[i].message.Role == FromTool {
			list = append(list, i)
		}
	}
	return list
}

// replace sends another message in the place of a result.
func (c *cutter) replace(i int, e *entry) {
	c.weight = c.weight.minus(c.sent(i).weight).plus(e.weight)
	c.instead[i], c.cut = e, true
}

// sent is a message as it would be sent.
func (c *cutter) sent(i int) *entry { return cmp.Or(c.instead[i], c.entries[i]) }

func (c *cutter) result() cutting {
	r := cutting{head: noConversation, size: c.tokens()}
	for i, whole := 0, true; i < len(c.entries); i++ {
		if i < c.first || i > c.turn && i < c.group {
			r.Dropped++
			whole = false
			continue
		}
		e := c.sent(i)
		if e != c.entries[i] {
			whole = false
			if e == c.entries[i].short {
				r.Elided++
			} else {
				r.Shortened++
			}
		}
		if r.messages = append(r.messages, e.message); whole {
			r.head = e.head
		} else {
			r.head = conversationHead(r.head, e.digest)
		}
	}
	return r
}

// conversation is a list of messages. What is asked of it in every step costs the same
// however long it is.
type conversation struct {
	entries  []*entry
	messages []Message // those of the entries
	gauge    gauge
}

// size is that of a request with all messages, in tokens, and the weight of the whole.
func (c *conversation) size(w window) (tokens int64, all weight) {
	if c.gauge.window != w {
		c.gauge = gauge{window: w, since: w.fixed, all: w.fixed}
	}
	for _, e := range c.entries[c.gauge.seen:] {
		c.gauge.add(e)
	}
	return c.gauge.tokens(), c.gauge.all
}

func (c *conversation) head() string {
	if len(c.entries) == 0 {
		return noConversation
	}
	return c.entries[len(c.entries)-1].head
}

// entry is a message and what is known of it, so that it is found out once.
type entry struct {
	message Message
	digest  string
	head    string // digest of the conversation that ends with it; "": it is in none
	weight  weight

	asked bool // elision was
	short *entry
}

func newEntry(m Message) *entry {
	return &entry{message: m, digest: messageBlob(m).Digest, weight: weigh(m)}
}

func newConversation(messages []Message) *conversation {
	c := &conversation{}
	for _, m := range messages {
		c.append(m)
	}
	return c
}

func (c *conversation) append(m Message) {
	e := newEntry(m)
	e.head = conversationHead(c.head(), e.digest)
	c.entries, c.messages = append(c.entries, e), append(c.messages, m)
}

// elision is the message with a line in the place of its content: of a result that
// becomes smaller by that. Of others it is nil.
func (e *entry) elision() *entry {
	if e.asked || e.message.Role != FromTool {
		return e.short
	}
	e.asked = true
	bytes, digest := measure(e.message.Content)
	m := e.message
	m.Content = []Content{{Type: ContentText, Text: fmt.Sprintf("[%d bytes left out, %s]", bytes, digest)}}
	if weigh(m).tokens() < e.weight.tokens() {
		e.short = newEntry(m)
	}
	return e.short
}

// text is what a result says.
func (e *entry) text() string {
	if len(e.message.Content) == 0 {
		return ""
	}
	return e.message.Content[0].Text // any text comes first
}

// shortened is a result with most bytes of its text, nil if it becomes no smaller by that.
func (e *entry) shortened(most int64) *Message {
	text := e.text()
	if int64(len(text)) <= most {
		return nil
	}
	m := e.message
	m.Content = slices.Clone(m.Content)
	m.Content[0].Text = shortText(text, int(most), fmt.Sprintf("[… left out here: some %d of %d bytes, for which the context window has no room …]", int64(len(text))-most, len(text)))
	if len(m.Content[0].Text) >= len(text) {
		return nil
	}
	return &m
}

// measure is how large a content is, and its digest.
func measure(list []Content) (int64, string) {
	if len(list) == 1 && list[0].Type == ContentText {
		return int64(len(list[0].Text)), flow.Digest([]byte(list[0].Text))
	}
	n := int64(0)
	for _, c := range list {
		n += int64(len(c.Text) + len(c.Data))
		if c.Kept {
			n += int64(c.Size)
		}
	}
	return n, flow.Digest(flow.JSON(list))
}

// Blob is a message as a document, named by its digest.
type Blob struct {
	Digest string
	Data   []byte
}

// noConversation is the digest of the conversation in which nobody has said anything.
var noConversation = flow.Digest([]byte("[]"))

// messageBlob is a message in canonical form, all its fields. Vendor blocks that
// have no canonical form stand as they came.
func messageBlob(m Message) Blob {
	text := flow.JSON(m)
	if canonical, err := canon.Form(text); err == nil {
		text = canonical
	}
	return Blob{flow.Digest(text), text}
}

// conversationHead is the digest of a conversation: of the one before it and of its
// last message.
func conversationHead(before, last string) string {
	return flow.Digest([]byte(`["` + before + `","` + last + `"]`)) // digests need no escapes
}

// HeadOf is the digest of a conversation.
func HeadOf(messages []Message) string {
	head := noConversation
	for _, m := range messages {
		head = conversationHead(head, messageBlob(m).Digest)
	}
	return head
}

// MessageBlobs are the messages themselves, in their order.
func MessageBlobs(messages []Message) []Blob {
	blobs := make([]Blob, len(messages))
	for i, m := range messages {
		blobs[i] = messageBlob(m)
	}
	return blobs
}
